"""KryoSerializer: Kryo 2 (Flink 1.x) and Kryo 5 (Flink 2.x) as columns, decode programs and encoders.

The walker over arbitrary object graphs is stateproc.codec.kryo. May import: serializers.java, serializers.core, codec.
"""
