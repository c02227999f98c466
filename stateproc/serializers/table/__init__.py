"""Serializers of SQL operators: rows, arrays and maps in Flink's binary format, SQL types, variants, bitmaps.

Flink's package table.runtime.typeutils and the types that only SQL has. May import: serializers.java,
serializers.runtime, serializers.core, codec.
"""
