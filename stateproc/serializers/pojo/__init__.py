"""PojoSerializer, and Flink's type extraction of described classes.

May import: serializers.kryo, serializers.java, serializers.core, codec.
"""
