"""Decode the bytes that Flink's serializers write to Arrow arrays, and encode Arrow arrays to the same bytes.

Layouts (``layouts``) describe bytes; they emit programs for the decode VM (``builder``, ``vm``, ``machine``) and
measure and write rows (``encoding``). ``kryo`` reads what no program can describe.
The codec imports only ``errors`` and ``wire``.
"""
