"""Raw keyed state of an operator's own is named, and carried over byte by byte."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.cli import main
from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot
from stateproc.keygroups.ranges import key_group_range
from stateproc.metadata.stream_handles import KeyGroupsHandle
from stateproc.model.operator import Operator
from stateproc.model.raw_keyed import raw_keyed_parts, runs_text
from stateproc.snapshot.metadata_tables import METADATA_TABLES
from tests.helpers.cases import case_snapshots
from tests.helpers.fixtures import fixtures

ONE = next(one for one in case_snapshots() if one.case == "raw-keyed")
RAW = {
    group: len(f"raw of {group}").to_bytes(2, "big") + f"raw of {group}".encode() + (1000 * group).to_bytes(4, "big")
    for group in (2, 3, 8)
}
"""What the job writes: writeUTF and writeInt, per key group."""


def written_by(operator: Operator) -> dict[int, tuple[int, bytes]]:
    """Return the subtask and the bytes of each key group."""
    return {
        item.key_group: (part.subtask, bytes(part.source.read(item.start, item.stop - item.start)))
        for part in raw_keyed_parts(operator)
        for item in part.ranges
    }


def check(path: object, uid: str = "raw", state: str | None = "count") -> None:
    """Check the raw bytes, each in the file of the subtask that has its key group, and the managed state."""
    operator = stateproc.open(path, uids=[uid, *ONE.uids]).operator(uid)
    of = {
        group: index
        for index in range(operator.parallelism)
        for group in key_group_range(operator.max_parallelism, operator.parallelism, index)
    }
    assert written_by(operator) == {group: (of[group], data) for group, data in RAW.items()}
    if state is not None:
        (expected,) = (item for item in ONE.states() if item.name == "count")
        assert expected.differences(operator.state(state).to_arrow().to_pylist()) == []


@pytest.mark.parametrize(
    ("arguments", "state"),
    [
        (("rescale", "--parallelism", "raw=1"), "count"),
        (("rescale", "--parallelism", "raw=4"), "count"),
        (("rescale", "--parallelism", "raw=128"), "count"),
        (("rescale", "--max-parallelism", "256", "--operator-max-parallelism", "raw=128"), "count"),
        (("rename-state", "--uid", "raw", "--state", "count", "--to", "n"), "n"),
        (("ttl", "enable", "--uid", "raw", "--state", "count"), None),
        (("drop-state", "--uid", "raw", "--state", "count"), None),
        (("convert", "--to", "native-rocksdb"), "count"),
        (("convert", "--to", "native-hashmap"), "count"),
        (("copy",), "count"),
    ],
    ids=lambda item: " ".join(item) if isinstance(item, tuple) else "",
)
def test_verbs_carry_it_over(arguments: tuple[str, ...], state: str | None, tmp_path: Path) -> None:
    name, *rest = arguments
    first = [rest.pop(0)] if name == "ttl" else []
    assert main([name, *first, ONE.path, str(tmp_path / "out"), *rest, "--uids", ",".join(ONE.uids)]) == 0
    check(tmp_path / "out", state=state)


def test_files_of_several_subtasks_become_those_of_others(tmp_path: Path) -> None:
    options = {"uids": ",".join(ONE.uids)}
    path = ONE.path
    for number, parallelism in enumerate((128, 3, 64, 1)):
        writer = SavepointWriter.from_existing_savepoint(None, path, options).with_parallelism("raw", parallelism)
        path = str(writer.write(tmp_path / str(number)))
        check(path)


def test_a_plan_refuses_what_a_write_would_refuse() -> None:
    """And the advice helps."""
    writer = SavepointWriter.from_existing_savepoint(None, ONE.path, {"uids": ",".join(ONE.uids)})
    writer.with_max_parallelism(256)
    with pytest.raises(UnsupportedSnapshot, match="only the operator knows which keys") as refused:
        writer.plan()
    assert "with_max_parallelism(128, 'raw')" in (refused.value.advice or "")
    assert writer.with_max_parallelism(128, "raw").plan()


def test_transformed_rows_leave_it_as_it_is(tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, ONE.path, {"uids": ",".join(ONE.uids)})
    check(writer.transform_state("raw", "count", lambda rows: rows).with_parallelism("raw", 5).write(tmp_path / "out"))


def test_inspect_and_verify_name_it(capsys: pytest.CaptureFixture[str]) -> None:
    uids = ["--uids", ",".join(ONE.uids)]
    assert main(["inspect", ONE.path, *uids, "--json"]) == 0
    reports = {item["uid"]: item["raw_keyed"] for item in json.loads(capsys.readouterr().out)["operators"]}
    assert reports == {"raw": {"bytes": 42, "key_groups": [2, 3, 8]}, "src": None, "k": None}
    for command in ("inspect", "verify"):
        assert main([command, ONE.path, *uids]) == 0
        assert "42 B of raw keyed state in key groups 2–3, 8" in " ".join(capsys.readouterr().out.split())


def test_the_table_of_files_lists_it() -> None:
    rows = METADATA_TABLES["files"].table(ONE.open()).to_pylist()
    raw = [(row["uid"], row["subtask"], row["bytes"]) for row in rows if row["role"] == "raw keyed"]
    assert raw == [("raw", 0, 42)]


def test_timers_in_raw_keyed_state_are_no_state_of_the_operators_own() -> None:
    found = 0
    for one in fixtures():
        for operator in one.open().operators:
            found += len(operator.raw_timers)
            assert not operator.raw_timers or not list(raw_keyed_parts(operator))
    assert found


def test_an_offset_outside_of_the_bytes_is_damage() -> None:
    operator = ONE.open().operator("raw")
    (subtask,) = (item for item in operator.metadata.subtasks if item.raw_keyed)
    handle = subtask.raw_keyed
    assert isinstance(handle, KeyGroupsHandle)
    far = replace(handle, offsets=(*handle.offsets[:-1], 43))
    operator.metadata = replace(operator.metadata, subtasks=(replace(subtask, raw_keyed=far),))
    with pytest.raises(CorruptSnapshot, match="begins at byte 43 of 42"):
        list(raw_keyed_parts(operator))


def test_runs_of_numbers() -> None:
    assert runs_text([2, 3, 8]) == "2–3, 8"
    assert runs_text([]) == "" and runs_text([5]) == "5"
    assert runs_text(range(0, 40, 2), most=3) == "0, 2, 4 and 17 more"
