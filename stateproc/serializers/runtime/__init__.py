"""Serializers that Flink's operators use themselves: TTL, timers, windows, buffered elements, CEP, dropped sinks.

May import: serializers.java, serializers.core, codec.
"""
