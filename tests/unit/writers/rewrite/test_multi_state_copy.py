"""Reading several states of a canonical file in one pass: the entries equal those of each state read alone."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import pytest

from stateproc.model.operator import Operator
from stateproc.readers.canonical import reader
from stateproc.readers.canonical.reader import CanonicalSplit
from stateproc.writers.rewrite.merged_header import merged_header
from stateproc.writers.rewrite.raw_copy import CarriedSplit, CarriedTogether, carried_splits, together
from tests.helpers.fixtures import CLASSES, FIXTURES, Fixture, fixtures_in
from tests.helpers.writers.raw_copies import entries_of

CANONICAL = ("1.20/kitchen-hashmap-canonical", "1.20/tiny-rocksdb-canonical-1024", "1.13/windows-rocksdb-canonical",
             "1.20/edges-hashmap-canonical", "2.3/kitchen-rocksdb-canonical")  # fmt: skip
OTHERS = ("1.20/kitchen-rocksdb-incremental", "1.20/tiny-hashmap-changelog", "1.20/kitchen-hashmap-native")


def fixture(name: str) -> Fixture:
    return fixtures_in(FIXTURES / name)[0]


def splits_of(operator: Operator, size: int) -> list[CarriedSplit]:
    """Return splits of all keyed states, with state ids that differ from those in the file."""
    names = merged_header(operator).names
    return [
        split for number, name in enumerate(names)
        for split in carried_splits(operator, name, 100 - number, split_bytes=size)
    ]  # fmt: skip


def entries(parts: list[Any]) -> dict[int, dict[tuple[int, bytes], bytes]]:
    """Return the entries by state id."""
    batches = [batch for part in parts for batch in pickle.loads(pickle.dumps(part)).read()]
    ids = {batch.column("state_id")[0].as_py() for batch in batches}
    assert all(len(set(batch.column("state_id").to_pylist())) == 1 for batch in batches)
    return {number: entries_of(b for b in batches if b.column("state_id")[0].as_py() == number) for number in ids}


@pytest.mark.parametrize("size", [1, 1 << 28])
@pytest.mark.parametrize("name", CANONICAL)
def test_entries_equal_those_of_each_state_read_alone(name: str, size: int) -> None:
    for operator in fixture(name).open(classes=CLASSES).operators:
        splits, n_states = splits_of(operator, 1 << 28), len(merged_header(operator).names)
        if n_states:
            joined = together(splits, size)
            assert n_states > 1 and all(isinstance(part, CarriedTogether) for part in joined)
            assert entries(joined) == entries(splits)
            n_groups = sum(len(part.key_groups) for part in joined)
            assert len(joined) == (n_groups if size == 1 else len(splits) // n_states)


@pytest.mark.parametrize("name", CANONICAL)
def test_large_key_groups_are_read_in_the_order_of_the_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MOST_RUNS", 1 << 20)
    for operator in fixture(name).open(classes=CLASSES).operators:
        names = merged_header(operator).names
        splits = [split for number, state in enumerate(names) for split in carried_splits(operator, state, number)]
        joined = together(splits)
        assert entries(joined) == entries(splits)
        for part in joined:
            batches = list(part.read())
            runs = [(one.column("key_group")[0].as_py(), one.column("state_id")[0].as_py()) for one in batches]
            assert runs == sorted(runs)
            assert all(len(batch.column("key_group").unique()) == 1 for batch in batches)


@dataclass(frozen=True)
class Counted:
    """A source that counts the reads of each of its bytes."""

    inner: Any
    reads: Counter[int]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def read(self, start: int, length: int) -> bytes:
        self.reads.update(range(start, start + length))
        return bytes(self.inner.read(start, length))

    def read_into(self, start: int, target: memoryview) -> None:
        self.reads.update(range(start, start + len(target)))
        self.inner.read_into(start, target)


@pytest.mark.parametrize("name", ["1.20/kitchen-hashmap-canonical", "1.20/kitchen-hashmap-canonical-snappy"])
def test_a_file_is_read_once(name: str) -> None:
    operator = fixture(name).open(classes=CLASSES).operator("kitchen-string")
    for part in together(splits_of(operator, 1 << 28)):
        assert isinstance(part, CarriedTogether)
        reads: Counter[int] = Counter()
        source = replace(part.source, source=Counted(part.source.source, reads))
        assert sum(batch.num_rows for batch in replace(part, source=source).read()) > 0
        start, stop = part.source.ranges[0].start, part.source.ranges[-1].stop
        assert {reads[at] for at in range(start, stop)} == {1}


@pytest.mark.parametrize("name", OTHERS)
def test_states_of_non_canonical_files_are_read_separately(name: str) -> None:
    for operator in fixture(name).open(classes=CLASSES).operators:
        splits = splits_of(operator, 1 << 28)
        assert together(splits) == splits
        assert not any(isinstance(split.source, CanonicalSplit) for split in splits)
