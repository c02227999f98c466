"""What several backends share: splits, files, headers, key-group blocks, entry programs, decoding of raw entries.

Modules here know no backend: they may import each other and what readers may import, but no other reader.
"""
