"""Kryo graphs, as org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializer writes them, read to plain Python."""
