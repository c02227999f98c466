"""Keys in wrong key groups are found; keys whose hash is not certain are never reported."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from stateproc import types
from stateproc.keygroups.key_group_pruning import key_groups
from stateproc.model.keyed_state import KeyedState
from stateproc.serializers import LayoutContext, Serializer
from stateproc.snapshot.snapshot import Snapshot
from stateproc.verification.key_group_check import KeyGroupCheck
from tests.helpers.fixtures import CLASSES, Fixture, fixtures

EXACT = LayoutContext(temporal="exact")
GROUPS = 128


def check(type_: str, context: LayoutContext = EXACT) -> KeyGroupCheck:
    return KeyGroupCheck(types.of(type_), context, GROUPS, 4)


def stored(serializer: Serializer, keys: list[object]) -> np.ndarray:
    groups = [key_groups(serializer, [key], EXACT, GROUPS, 4) for key in keys]
    return np.array([next(iter(found)) if found else 0 for found in groups], np.int32)


@pytest.mark.parametrize(
    ("type_", "keys"),
    [
        ("Long", pa.array([1, -5, 1 << 40])),
        ("String", pa.array(["a", "é", "漢字"])),
        ("Double", pa.array([1.5, float("nan"), -2.5])),
        ("Instant", pa.array(["2024-02-29T12:30:00.123456789Z", "1969-12-31T23:59:59Z"])),
        ("LocalDate", pa.array(["2024-02-29", "1969-12-31"])),
        ("Tuple2<String, Integer>", pa.array([{"f0": "a", "f1": 1}, {"f0": "b", "f1": -1}])),
    ],
)
def test_keys_are_in_their_key_groups_and_no_others(type_: str, keys: pa.Array) -> None:
    of_type = check(type_)
    right = stored(of_type.serializer, keys.to_pylist())
    assert of_type.is_possible
    assert of_type.misplaced(keys, right) == []
    wrong = (right + 1) % GROUPS
    found = of_type.misplaced(keys, wrong)
    assert [row for row, _ in found] == list(range(len(keys)))
    assert [groups for _, groups in found] == [{int(group)} for group in right]


def test_zeros_of_both_signs_are_possible() -> None:
    of_type = check("Double")
    zeros = pa.array([0.0, -0.0])
    for groups in (stored(of_type.serializer, [0.0, 0.0]), stored(of_type.serializer, [-0.0, -0.0])):
        assert of_type.misplaced(zeros, groups) == []


def test_text_with_a_replacement_character_is_not_judged() -> None:
    # It stands for itself, or for half of a surrogate pair, which has another hash.
    assert check("String").misplaced(pa.array(["a\ufffd"]), np.zeros(1, np.int32)) == []


def test_keys_without_a_known_hash_are_not_judged() -> None:
    of_type = check("byte[]")
    assert not of_type.is_possible
    assert of_type.misplaced(pa.array([b"a"]), np.array([3], np.int32)) == []


@pytest.mark.parametrize("fixture", fixtures("canonical", backends=("hashmap",)), ids=lambda fixture: fixture.name)
def test_the_keys_that_flink_stored_are_in_their_key_groups(fixture: Fixture) -> None:
    snapshot = fixture.open(classes=CLASSES, temporal="exact")
    for operator in snapshot.operators:
        for state in operator.keyed_states:
            _check_state(snapshot, state)


def _check_state(snapshot: Snapshot, state: KeyedState) -> None:
    context = state.operator
    found = KeyGroupCheck(state.keyed.key, context.options.context, context.max_parallelism, snapshot.metadata.version)
    for batch in state.batches(columns=["key_group", "key"]):
        groups = np.array(batch.column("key_group").to_pylist(), np.int32)
        assert found.misplaced(batch.column("key"), groups) == []
        if found.is_possible and len(batch) > 1 and context.max_parallelism > 1:
            assert found.misplaced(batch.column("key"), (groups + 1) % context.max_parallelism)
