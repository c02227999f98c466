"""What is carried over of real snapshots, for the tests of carrying."""

from __future__ import annotations

import json
import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache

import pyarrow as pa

from stateproc.model.operator import Operator
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext
from stateproc.writers.rewrite.merged_header import merged_header
from stateproc.writers.rewrite.raw_copy import carried_splits
from stateproc.writers.rewrite.ttl import ttl_off
from tests.helpers.fixtures import CLASSES, Fixture, fixtures

Entries = dict[tuple[int, bytes], bytes]
"""(key group, composite key) → value, of one state."""


def carried_batches(operator: Operator, state: str, state_id: int = 0) -> Iterator[pa.RecordBatch]:
    """The state's entries as tasks read them, each split sent to another process first."""
    for split in carried_splits(operator, state, state_id):
        yield from pickle.loads(pickle.dumps(split)).read()


def entries_of(batches: Iterable[pa.RecordBatch]) -> Entries:
    found: Entries = {}
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in ("key_group", "key", "value")]
        for group, key, value in zip(*columns, strict=True):
            assert (group, key) not in found
            found[group, key] = value
    return found


def keyed_contents(fixture: Fixture) -> dict[tuple[str, str], tuple[StateDescriptor, int, Entries]]:
    """All keyed states of a fixture that hold anything, times of last access left out:
    (operator, state) → (what it is, max parallelism, entries). Those of canonical savepoints, which others are compared
    with, are read once.
    """
    if fixture.manifest["kind"] == "canonical" and fixture.name in _CANONICAL:
        return _CANONICAL[fixture.name]
    found = {}
    snapshot = fixture.open(classes=CLASSES)
    for operator in snapshot.operators:
        header = merged_header(operator)
        for name in header.names:
            state = header.keyed(name)
            batches = carried_batches(operator, name)
            if state.ttl:
                batches = ttl_off(state, snapshot.options.context).batches(batches)
            entries = entries_of(batches)
            if state.kind is StateKind.MAP:
                entries = {at: _null_as_of_rocksdb(value) for at, value in entries.items()}
            if entries:
                found[operator.operator_id, name] = state, operator.max_parallelism, entries
    if fixture.manifest["kind"] == "canonical":
        _CANONICAL[fixture.name] = found
    return found


_CANONICAL: dict[str, dict[tuple[str, str], tuple[StateDescriptor, int, Entries]]] = {}


def _null_as_of_rocksdb(value: bytes) -> bytes:
    """Heap backends write a form of the serializer's own after the null marker, canonical savepoints included."""
    return value[:1] if value[:1] == b"\1" else value


def as_batch(entries: Entries) -> pa.RecordBatch:
    groups, keys = ([at[part] for at in entries] for part in (0, 1))
    columns = [pa.array(groups, pa.int32()), pa.array([0] * len(entries), pa.int32())]
    columns += [pa.array(keys, pa.binary()), pa.array(list(entries.values()), pa.binary())]
    return pa.record_batch(columns, names=["key_group", "state_id", "key", "value"])


@cache
def twins() -> dict[str, list[Fixture]]:
    """Return fixtures of one release with the same contents, times of last access aside, by the first one's name.

    Groups without a canonical snapshot, or with nothing else, are left out.
    """
    found: dict[tuple[str, str], list[Fixture]] = defaultdict(list)
    for fixture in fixtures():
        recorded = "\n".join(sorted(map(_contents_of_line, fixture.expected_lines())))
        found[fixture.path.parent.name, recorded].append(fixture)
    return {
        group[0].name: group
        for group in found.values()
        if len({fixture.manifest["kind"] == "canonical" for fixture in group}) == 2
    }


@cache
def _contents_of_line(line: str) -> str:
    """Return an expected line without its times of last access, fields in order. Most lines are in many fixtures."""
    return json.dumps({key: part for key, part in json.loads(line).items() if key != "last_access"}, sort_keys=True)


def context_of(fixture: Fixture) -> LayoutContext:
    return fixture.open(classes=CLASSES).options.context
