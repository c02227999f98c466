"""AvroSerializer: values in Flink's own Avro encoding, schemas and their text.

May import: serializers.table, serializers.java, serializers.core, codec.
"""
