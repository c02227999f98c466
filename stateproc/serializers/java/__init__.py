"""Serializers of Java values: scalars, big numbers, dates and times, collections, tuples and rows, object streams.

Flink's packages api.common.typeutils.base and api.java.typeutils.runtime, and the descriptions of user classes.
May import: serializers.core, codec, wire.
"""
