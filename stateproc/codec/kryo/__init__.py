"""Kryo object graphs read to plain Python: what Flink's KryoSerializer writes."""
