"""The table of connector formats. A new format is a module beside this one, a row here and a sample in the tests.

The tests take every row and every version of it from this table, and ask for a sample in tests/vectors/connectors.
"""

from __future__ import annotations

from stateproc.connectors import (
    async_sinks,
    cdc,
    debezium,
    file_sink,
    file_source,
    hybrid_source,
    iceberg,
    jdbc,
    kafka,
    kinesis,
    mongodb,
    number_sequence,
    paimon,
    pulsar,
    recoverables,
)
from stateproc.connectors.connector_format import ConnectorFormat, FormatRole


def _splits() -> tuple[ConnectorFormat, ...]:
    return formats_of(FormatRole.SPLIT)


def _enumerators() -> tuple[ConnectorFormat, ...]:
    return formats_of(FormatRole.ENUMERATOR)


CONNECTOR_FORMATS: tuple[ConnectorFormat, ...] = (
    kafka.SPLIT,
    kafka.ENUMERATOR,
    kafka.WRITER,
    kafka.COMMITTABLE,
    kafka.DYNAMIC_SPLIT,
    kafka.DYNAMIC_ENUMERATOR,
    cdc.MYSQL_SPLIT,
    cdc.BASE_SPLIT,
    cdc.MYSQL_ENUMERATOR,
    cdc.BASE_ENUMERATOR,
    cdc.STREAM_ENUMERATOR,
    debezium.OFFSETS,
    file_sink.WRITER,
    file_sink.COMMITTABLE,
    file_sink.COMPACTION,
    *recoverables.RECOVERABLES,
    file_source.SPLIT,
    file_source.SPLIT_WITHOUT_FILE_STATUS,
    file_source.ENUMERATOR,
    file_source.ENUMERATOR_WITHOUT_FILE_STATUS,
    iceberg.SPLIT,
    iceberg.ENUMERATOR,
    iceberg.COMMITTABLE,
    iceberg.MANIFESTS,
    paimon.SPLIT,
    paimon.ENUMERATOR,
    paimon.COMMITTER,
    kinesis.SPLIT,
    kinesis.ENUMERATOR,
    kinesis.WRITER,
    async_sinks.FIREHOSE_WRITER,
    async_sinks.DYNAMODB_WRITER,
    async_sinks.NOTHING_BUFFERED,
    pulsar.SPLIT,
    pulsar.ENUMERATOR,
    pulsar.COMMITTABLE,
    jdbc.SPLIT,
    jdbc.ENUMERATOR,
    jdbc.WRITER,
    jdbc.COMMITTABLE,
    mongodb.SPLIT,
    mongodb.ENUMERATOR,
    number_sequence.SPLIT,
    number_sequence.ENUMERATOR,
    hybrid_source.split_format(_splits),
    hybrid_source.enumerator_format(_enumerators),
)
"""All formats. Those of one role are tried in this order, and the first that accepts the bytes is taken."""

_BY_ROLE = {role: tuple(known for known in CONNECTOR_FORMATS if known.role is role) for role in FormatRole}


def formats_of(role: FormatRole) -> tuple[ConnectorFormat, ...]:
    """Return the formats of a role in the order in which they are tried."""
    return _BY_ROLE[role]
