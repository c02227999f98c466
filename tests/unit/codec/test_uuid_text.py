"""UUIDs as bytes and as text, compared with Python's uuid."""

from __future__ import annotations

import random
from uuid import UUID

import pyarrow as pa
import pytest

from stateproc.codec.arrow_arrays import Unencodable
from stateproc.codec.errors import BadValue
from stateproc.codec.uuid_text import uuid_bytes, uuid_texts

RANDOM = random.Random(1)
UUIDS = [UUID(int=0), UUID(int=2**128 - 1), *(UUID(int=RANDOM.getrandbits(128)) for _ in range(1000))]
TEXTS = pa.array([None, *map(str, UUIDS), None])
BYTES = pa.array([None, *(one.bytes for one in UUIDS), None])


def test_both_ways() -> None:
    assert uuid_bytes(TEXTS).equals(BYTES)
    assert uuid_texts(BYTES).equals(TEXTS)
    assert uuid_bytes(TEXTS.slice(5, 10)).equals(BYTES.slice(5, 10))
    assert uuid_texts(BYTES.slice(5, 10)).equals(TEXTS.slice(5, 10))


@pytest.mark.parametrize("rows", [[], [None, None]])
def test_without_values(rows: list[None]) -> None:
    assert uuid_bytes(pa.array(rows, pa.string())).equals(pa.array(rows, pa.binary()))
    assert uuid_texts(pa.array(rows, pa.binary())).equals(pa.array(rows, pa.string()))


def test_other_spellings_are_read() -> None:
    one = UUIDS[2]
    spellings = [str(one), str(one).upper(), one.hex, f"{{{one}}}", f"urn:uuid:{one}"]
    assert uuid_bytes(pa.array(spellings)).to_pylist() == [one.bytes] * len(spellings)
    assert uuid_bytes(pa.array(spellings[:2])).to_pylist() == [one.bytes] * 2


@pytest.mark.parametrize("text", ["", "no", "g" * 36, "0" * 36, "00000000-0000-0000-0000-00000000000\u00e9"])
def test_what_is_no_uuid_is_an_error_with_its_row(text: str) -> None:
    with pytest.raises(Unencodable) as e:
        uuid_bytes(pa.array([str(UUIDS[0]), None, text]))
    assert e.value.row == 2


@pytest.mark.parametrize("raw", [b"", bytes(15), bytes(17), bytes(32)])
def test_other_lengths_are_refused(raw: bytes) -> None:
    with pytest.raises(BadValue, match=f"a UUID of {len(raw)} bytes"):
        uuid_texts(pa.array([bytes(16), raw]))
