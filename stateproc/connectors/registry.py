"""The table of connector formats. A new format is a module beside this one, a row here and a sample in the tests.

The tests take every row and every version of it from this table, and ask for a sample in
tests/vectors/connector-formats.json.
"""

from __future__ import annotations

from stateproc.connectors import file_source, kafka, number_sequence
from stateproc.connectors.connector_format import ConnectorFormat, FormatRole

CONNECTOR_FORMATS: tuple[ConnectorFormat, ...] = (
    kafka.SPLIT,
    kafka.ENUMERATOR,
    kafka.WRITER,
    kafka.COMMITTABLE,
    file_source.SPLIT,
    file_source.SPLIT_WITHOUT_FILE_STATUS,
    number_sequence.SPLIT,
    number_sequence.ENUMERATOR,
)
"""All formats. Those of one role are tried in this order, and the first that accepts the bytes is taken."""


def formats_of(role: FormatRole) -> tuple[ConnectorFormat, ...]:
    """Return the formats of a role in the order in which they are tried."""
    return tuple(known for known in CONNECTOR_FORMATS if known.role is role)
