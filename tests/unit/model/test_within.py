"""States limited to some key groups are pickled small, and read the same rows in another process."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tests.helpers.fixtures import FIXTURES, fixtures_in

NAMES = [
    "1.20/chain-rocksdb",
    "1.20/chain-changelog-sessions",
    "1.20/operators-rocksdb-canonical",
    "1.20/kafka-hashmap-checkpoint",
    "1.20/tiny-hashmap-checkpoint-snappy",
]


@pytest.mark.parametrize("path", [FIXTURES / name for name in NAMES], ids=NAMES)
def test_states_within_key_groups_are_read_after_pickling(path: Path) -> None:
    snapshot = fixtures_in(path)[-1].open()
    for state in snapshot.states:
        groups = range(state.operator.max_parallelism // 2)
        pickled = pickle.dumps(state.within(groups))
        options = {"key_groups": groups} if state.distribution == "keyed" else {}
        assert pickle.loads(pickled).to_arrow(**options).equals(state.to_arrow(**options)), state
        assert len(pickled) < 16_000


def test_files_of_other_subtasks_are_not_pickled() -> None:
    snapshot = fixtures_in(FIXTURES / "1.20/chain-changelog-sessions")[-1].open()
    state = snapshot.states[0]
    one, every = (len(pickle.dumps(state.within(groups))) for groups in (range(1), range(128)))
    assert one < every
