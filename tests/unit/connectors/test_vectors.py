"""Payloads of connectors' own classes: read to their contents, written back, never read as another connector's."""

from __future__ import annotations

import base64
import json
import random
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa
import pytest

from stateproc.connectors.connector_format import FormatRole, Versioned
from stateproc.connectors.registry import CONNECTOR_FORMATS, formats_of
from tests.helpers.connector_vectors import ALSO, NAMES, Vector, accepted, connector_vectors
from tests.helpers.sweeps import sample

ALL = connector_vectors()
CASES = sample(ALL, lambda vector: [(vector.family, vector.role, vector.item.version, len(vector.item.payload) < 64)])
NOT_SHOWN = {
    "size",
    "kind",
    "type",
    "offset_factory",
    "min_sequence_number",
    "max_sequence_number",
    "schema_id",
    "level",
    "is_streaming",
    "partition_spec_id",
    "partition_k",
    "manifest_version",
    "split_serializer_version",
    "assignment_status",
    "sequence_number",
    "assigner_status",
    "table_id_case_sensitive",
    "parts",
    "bytes_in_parts",
}
"""Names in contents that the columns do not have, or say otherwise (as a name of the status, a total size)."""


MARKERS = {"-1", "9223372036854775807", "n/a"}
"""Numbers for nothing, which are null in columns."""
NEUTRAL = ("cdc stream", "async sink, nothing buffered")
"""Formats of values that are the same in several connectors."""


def leaves(value: Any, left_out: Collection[str] = ()) -> Iterator[str]:
    """Yield the values within a value as text, without quotes of identifiers; texts of JSON are values, too."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name == "B":  # binary attributes of DynamoDB: hex in the contents, base64 in its JSON
                yield item if item.isdecimal() else base64.b64decode(item).hex()
            elif name == "pending_splits" and isinstance(item, int):
                continue  # their number
            elif name not in left_out:
                yield from leaves(item, left_out)
            if name and not name.isidentifier():
                yield name
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item, left_out)
    elif isinstance(value, bytes):
        yield value.hex()
    elif isinstance(value, str):
        yield value.replace('"', "").replace("`", "").removesuffix(" ms")
        if value.startswith("{"):
            yield from leaves(json.loads(value))
        if value.startswith("202:"):  # the parts of an XID
            yield from value.split(":")
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def test_there_are_160_vectors() -> None:
    assert len(ALL) == 160


@pytest.mark.parametrize("vector", CASES, ids=str)
def test_a_vector_is_read_to_its_contents_and_written_back(vector: Vector) -> None:
    known, row = accepted(vector)
    assert known.name in (NAMES.get(vector.family), *ALSO)
    assert known.write(vector.item.version, row) == vector.item
    shown = known.shown(row)
    assert len(pa.array([row], known.type_of([row]))) == 1
    missing = Counter(leaves(vector.contents, NOT_SHOWN)) - Counter(leaves(shown))
    assert not set(missing) - MARKERS, shown


@pytest.mark.parametrize("vector", CASES, ids=str)
def test_what_a_vector_answers(vector: Vector) -> None:
    """Positions and what is pending are found without error, and positions name the split."""
    known, row = accepted(vector)
    if known.positions is not None:
        assert all(position.split and position.kind for position in known.positions(row))
    if known.pending is not None:
        assert all(item.name and item.kind for item in known.pending(row))


@pytest.mark.parametrize("vector", CASES, ids=str)
def test_a_vector_is_not_accepted_by_other_connectors(vector: Vector) -> None:
    own = accepted(vector)[0]
    for known in CONNECTOR_FORMATS:
        row = known.read(vector.item)
        if row is None or known is own or known.name in NEUTRAL:
            continue
        # Nothing that others accept would be taken for theirs.
        assert not known.identifies(row), f"{vector} is read as {known.name}"


@pytest.mark.parametrize("vector", CASES, ids=str)
def test_truncated_and_longer_vectors_are_no_value(vector: Vector) -> None:
    known, _ = accepted(vector)
    payload = vector.item.payload
    step = max(len(payload) // 150, 1)
    for end in range(0, len(payload), step):
        short = known.read(Versioned(vector.item.version, payload[:end]))
        # The padding of XIDs may be shorter, and so may a value that older releases do not write.
        assert short is None or known.name == "jdbc xa" or payload[end:] in (b"\0", b"\1"), end
    longer = known.read(Versioned(vector.item.version, payload + b"\1"))
    assert longer is None or known.name in ("paimon",), longer
    assert known.read(Versioned(1 << 20, payload)) is None


@pytest.mark.parametrize("vector", CASES, ids=str)
def test_changed_vectors_are_refused_or_fit_the_columns(vector: Vector) -> None:
    """Nothing but a row or None comes of damaged bytes, whoever reads them."""
    dice = random.Random(str(vector))
    payload = vector.item.payload
    for _ in range(60):
        changed = bytearray(payload)
        for _ in range(dice.randint(1, 4)):
            changed[dice.randrange(len(changed))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        item = Versioned(vector.item.version, bytes(changed))
        for known in formats_of(vector.role):
            row = known.read(item)
            if row is None:
                continue
            assert len(pa.array([row], known.type_of([row]))) == 1
            json.dumps(known.shown(row), default=bytes.hex)
            for question in (known.positions, known.pending):
                if question is not None:
                    list(question(row))


def test_texts_that_are_no_columns_are_no_values() -> None:
    """Half of a surrogate pair, which Java's strings may have: in modified UTF-8, and escaped in JSON."""
    by_name = {(vector.family, vector.name, vector.item.version): vector for vector in ALL}
    kinesis = by_name["kinesis-streams", "kinesis-split-trim-horizon-merged-shard", 2]
    payload = kinesis.item.payload.replace(
        b"shardId-000000000002", b"shardId-00000000" + "\ud800".encode("utf-8", "surrogatepass") + b"2"
    )
    assert accepted(kinesis)[0].read(Versioned(2, payload)) is None
    mysql = by_name["mysql-cdc", "mysql-binlog-earliest", 4]
    payload = mysql.item.payload.replace(b'"EARLIEST"', b'"\\ud800AA"')
    assert accepted(mysql)[0].read(Versioned(4, payload)) is None


@pytest.mark.parametrize(
    "rounds", [pytest.param(4_000, id="4,000"), pytest.param(25_000, id="25,000", marks=pytest.mark.exhaustive)]
)
def test_random_bytes_have_no_format(rounds: int) -> None:
    """Each format is tried on so many payloads, as one of its versions."""
    dice = random.Random(32)
    versions = [(known, sorted(known.structures)) for known in CONNECTOR_FORMATS]
    for number in range(rounds):
        payload = dice.randbytes(dice.randrange(120))
        for known, own in versions:
            version = own[number % len(own)]
            # A writer of Kafka before 4.0 is one text, which three bytes can be.
            if known.name == "kafka" and known.role is FormatRole.WRITER and version == 1:
                continue
            row = known.read(Versioned(version, payload))
            assert row is None or not known.identifies(row), (known.name, version, payload)
