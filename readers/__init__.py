"""Read state files: headers, splits, raw entries and Arrow batches, one package per backend.

``backends`` is the table through which everything that depends on the backend is called. Readers may import wire,
codec, serializers, metadata, storage, keygroups and options; snapshot, spark, cli and writers import readers.
"""
