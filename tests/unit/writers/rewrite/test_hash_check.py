"""Hash codes are confirmed by the key groups that keys are in at the source, before a savepoint is written by them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from stateproc import SavepointWriter
from stateproc.errors import InvalidOption
from stateproc.keygroups.ranges import key_group_of_hash
from stateproc.readers.common.state_descriptor import KeyedState, StateKind
from stateproc.serializers import LayoutContext
from stateproc.serializers.java.scalars import LONG
from stateproc.writers.rewrite.rekey import HashCheck, Rekey, rekey
from tests.helpers.cases import CaseSnapshot, case_snapshots
from tests.helpers.writers.raw_copies import as_batch

READS_EVERY_MODE = False
HASHED = ("scala", "record", "kotlin", "lombok")
STATE = KeyedState("s", StateKind.VALUE, 0, LONG, LONG, LONG)
SNAPSHOTS = [one for one in case_snapshots() if one.case == "hash-keys"]


def checked() -> Rekey:
    check = HashCheck(128, "orders", "the hashCode of Long")
    return replace(rekey(STATE, 256, LayoutContext()), check=check)


def moment(millis: int) -> bytes:
    return millis.to_bytes(8, "big", signed=True)


def batch_of(keys: list[int], groups: list[int]) -> pa.RecordBatch:
    return as_batch({(group, moment(key) + moment(0)): b"" for key, group in zip(keys, groups, strict=True)})


def groups_of(keys: list[int], max_parallelism: int) -> list[int]:
    found: list[int] = key_group_of_hash(np.array(keys, np.int32), max_parallelism).tolist()
    return found


def test_keys_in_their_key_groups_are_assigned_to_new_ones() -> None:
    keys = [*range(50)]
    (found,) = checked().batches([batch_of(keys, groups_of(keys, 128))])
    assert found.column("key_group").to_pylist() == groups_of(keys, 256)


def test_one_key_in_another_key_group_is_an_error_with_counts() -> None:
    keys = [*range(50)]
    groups = groups_of(keys, 128)
    wrong = [*groups[:-1], (groups[-1] + 1) % 128]
    batches = [batch_of(keys, wrong), batch_of(keys, groups)]
    with pytest.raises(
        InvalidOption, match=r"99 of 100 entries fit: the hashCode of Long gives 1 of them another"
    ) as e:
        list(checked().batches(batches))
    assert "operator orders" in str(e.value) and "keep the max parallelism" in str(e.value)


@pytest.mark.parametrize("one", SNAPSHOTS, ids=str)
@pytest.mark.parametrize("uid", HASHED)
def test_a_wrong_function_is_refused_and_nothing_is_left(one: CaseSnapshot, uid: str, tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, one.path, {"uids": ",".join(one.uids)})
    for name in HASHED:
        if name != uid:
            writer.remove_operator(name)
    writer.with_max_parallelism(256)
    writer.with_hash_function(uid, lambda keys: pa.array(np.arange(len(keys)), pa.int32()))
    with pytest.raises(InvalidOption, match=r"\d of \d+ entries fit: the hash function gives"):
        writer.write(tmp_path / "out")
    assert not list(tmp_path.iterdir())
