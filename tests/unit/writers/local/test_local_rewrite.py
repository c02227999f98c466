"""Rewriting snapshots without Spark: contents, formats, key groups, failures."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.metadata.handles import KeyGroupsHandle
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.snapshot.snapshot import Snapshot
from tests.helpers.fixtures import FIXTURES, Fixture, differences, fixtures_in
from tests.helpers.sweeps import exhaustive

CASES = [
    "1.20/kitchen-hashmap-canonical", "1.20/kitchen-hashmap-checkpoint", "1.20/kitchen-rocksdb-incremental",
    "1.20/windows-rocksdb-canonical", "1.20/operators-hashmap-canonical", "1.20/tiny-rocksdb-changelog",
    "2.3/tiny-hashmap-canonical-1024", "2.3/windows-hashmap-canonical-1024", "1.16/chain-changelog-memory",
]  # fmt: skip
CHANGES: dict[str, Callable[[SavepointWriter], object]] = {
    "copy": lambda writer: writer,
    "canonical": lambda writer: writer.with_format("canonical").with_compression(),
    "native-hashmap": lambda writer: writer.with_format("native-hashmap"),
    "native-rocksdb": lambda writer: writer.with_format("native-rocksdb"),
    "rescale": lambda writer: writer.with_max_parallelism(32768),
    "parallelism": lambda writer: [writer.with_parallelism(uid, 3) for uid in ("kitchen-string", "kitchen-long")],
}


def fixture(name: str) -> Fixture:
    return fixtures_in(FIXTURES / name)[-1]


def opened(item: Fixture, path: Any) -> Snapshot:
    uids = {line["uid"] for line in item.expected() if line["uid"]}
    return stateproc.open(path, uids=uids, key_type=item.manifest.get("key_type"))


def writer_of(item: Fixture) -> SavepointWriter:
    given = item.manifest.get("key_type")
    return SavepointWriter.from_existing_savepoint(None, item.snapshot, {"keyType": given} if given else {})


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", [CASES[0], CASES[2], *map(exhaustive, CASES[1:2] + CASES[3:])])
def test_a_rewrite_has_the_same_contents(tmp_path: Path, name: str, change: str) -> None:
    item = fixture(name)
    writer = writer_of(item)
    if change == "parallelism" and "kitchen" not in name:
        pytest.skip("the operators have other uids")
    CHANGES[change](writer)
    written = opened(item, writer.write(tmp_path / "s"))
    assert differences(item, written) == []
    keyed = [use.managed_keyed for it in written.operators for use in it.metadata.subtasks if use.managed_keyed]
    assert keyed or name.endswith("operators-hashmap-canonical")
    if change == "native-rocksdb":
        assert {type(handle) for handle in keyed} <= {IncrementalHandle}
    elif change in ("canonical", "native-hashmap"):
        assert {type(handle) for handle in keyed} <= {KeyGroupsHandle}
    if change == "rescale":
        assert {it.max_parallelism for it in written.operators} == {32768}
    assert [name for name in os.listdir(tmp_path / "s") if name.startswith(".")] == []
