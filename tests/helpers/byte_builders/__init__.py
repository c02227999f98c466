"""Build the bytes of Flink's formats by hand, from the description of each format and not from the readers."""
