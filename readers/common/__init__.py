"""What several readers share: key-group blocks, headers, entry programs, decoding of raw entries to rows."""
