"""Decoding of samples of every version of every connector format in the table, and refusal of damaged samples.

The samples are tests/vectors/connector-formats.json: as the connector's SimpleVersionedSerializer writes it, and the
row that it holds; those with `"made": "by stateproc"` are of versions that no release at hand writes. Versions that
tests/vectors/connectors has (see test_vectors.py) need none.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stateproc.connectors.connector_format import ConnectorFormat, FormatRole, Versioned
from stateproc.connectors.registry import CONNECTOR_FORMATS, formats_of
from tests.helpers.connector_vectors import accepted, connector_vectors

SAMPLES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "vectors/connector-formats.json").read_text(encoding="utf-8")
)
_SAMPLED = {(sample["format"], sample["role"], sample["version"]) for sample in SAMPLES}
VERSIONS = [
    (known, version)
    for known in CONNECTOR_FORMATS
    for version in known.structures
    if (known.name, known.role.name, version) in _SAMPLED
]


def name_of(value: object) -> str:
    return f"{value.name} {value.role.name}" if isinstance(value, ConnectorFormat) else str(value)


def samples_of(known: ConnectorFormat, version: int) -> list[tuple[bytes, dict[str, Any]]]:
    key = (known.name, known.role.name, version)
    found = [
        (bytes.fromhex(sample["payload"]), sample["row"])
        for sample in SAMPLES
        if (sample["format"], sample["role"], sample["version"]) == key
    ]
    assert found, f"add a sample of {key} to tests/vectors/connector-formats.json"
    return found


def test_names_are_unique_within_a_role() -> None:
    keys = [(known.name, known.role) for known in CONNECTOR_FORMATS]
    assert len(set(keys)) == len(keys)
    assert sum(len(formats_of(role)) for role in FormatRole) == len(CONNECTOR_FORMATS)


def test_every_version_has_a_sample_or_a_vector() -> None:
    vectors = [(accepted(vector)[0], vector.item.version) for vector in connector_vectors()]
    with_bytes = {(known.name, known.role.name, version) for known, version in vectors} | _SAMPLED
    assert with_bytes == {
        (known.name, known.role.name, version) for known in CONNECTOR_FORMATS for version in known.structures
    }


@pytest.mark.parametrize(("known", "version"), VERSIONS, ids=name_of)
def test_samples_are_decoded_to_rows_of_the_declared_type(known: ConnectorFormat, version: int) -> None:
    for payload, row in samples_of(known, version):
        decoded = known.read(Versioned(version, payload))
        assert decoded is not None
        assert json.loads(json.dumps(known.shown(decoded), default=bytes.hex)) == row
        assert known.write(version, decoded).payload == payload
        assert len(pa.array([decoded], known.type_of([decoded]))) == 1


@pytest.mark.parametrize(("known", "version"), VERSIONS, ids=name_of)
def test_a_sample_is_accepted_first_by_its_own_format(known: ConnectorFormat, version: int) -> None:
    for payload, _ in samples_of(known, version):
        item = Versioned(version, payload)
        rows = [(other, other.read(item)) for other in formats_of(known.role)]
        accepting = [other for other, row in rows if row is not None and other.identifies(row)]
        assert accepting[0] is known


@pytest.mark.parametrize(("known", "version"), VERSIONS, ids=name_of)
def test_truncated_and_longer_samples_are_refused(known: ConnectorFormat, version: int) -> None:
    for payload, _ in samples_of(known, version):
        for end in range(0, len(payload), max(len(payload) // 200, 1)):
            assert known.read(Versioned(version, payload[:end])) is None
        assert known.read(Versioned(version, payload + b"\0")) is None
        assert known.read(Versioned(max(known.structures) + 1, payload)) is None


@pytest.mark.parametrize(("known", "version"), VERSIONS, ids=name_of)
def test_changed_samples_are_refused_or_fit_the_columns(known: ConnectorFormat, version: int) -> None:
    dice = random.Random(11)
    for payload, _ in samples_of(known, version):
        for _ in range(200):
            changed = bytearray(payload)
            for _ in range(dice.randint(1, 4)):
                changed[dice.randrange(len(changed))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
            row = known.read(Versioned(version, bytes(changed)))
            if row is not None:
                assert len(pa.array([row], known.type_of([row]))) == 1
