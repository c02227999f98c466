"""The fields of classes that connectors of Flink let Kryo write, so that users need not describe them."""

from __future__ import annotations

from collections.abc import Mapping

from stateproc.codec.kryo.types import UserClass
from stateproc.serializers.java.class_descriptions import parse_classes

_FIELDS = {
    "final org.apache.flink.streaming.connectors.kafka.internals.KafkaTopicPartition implements java.io.Serializable": {
        "topic": "String",
        "partition": "int",
        "cachedHash": "int",
    },
    "org.apache.flink.streaming.connectors.kinesis.model.SequenceNumber implements java.io.Serializable": {
        "sequenceNumber": "String",
        "subSequenceNumber": "long",
        "cachedHash": "int",
    },
    "org.apache.flink.core.fs.Path implements java.io.Serializable, org.apache.flink.core.io.IOReadableWritable": {
        "uri": "java.net.URI",
    },
}

CONNECTOR_CLASSES: Mapping[str, UserClass] = parse_classes(_FIELDS)
"""Descriptions by the names of the classes."""


def with_connector_class(name: str, classes: Mapping[str, UserClass]) -> Mapping[str, UserClass]:
    """Return the user's descriptions and that of a connector's class, unless the user describes it."""
    known = CONNECTOR_CLASSES.get(name)
    return classes if known is None or name in classes else {**classes, name: known}
