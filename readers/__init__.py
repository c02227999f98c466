"""Read state files: headers, splits, raw entries and Arrow batches, one package per backend.

``backends.open_keyed_file`` opens a state handle as a `KeyedFile`, through which everything that depends on the
backend is called. Readers may import wire, codec, serializers, metadata, storage, keygroups and options; snapshot,
spark, cli and writers import readers.
"""

from __future__ import annotations


# What several backends share: splits, files, headers, key-group blocks, entry programs, decoding of raw entries.
#
# Modules here know no backend: they may import each other and what readers may import, but no other reader.
