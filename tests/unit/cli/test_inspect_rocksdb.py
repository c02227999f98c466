"""``inspect --rocksdb``, the metadata table "rocksdb", and reading without verification of checksums."""

from __future__ import annotations

import json
import pickle
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc.errors import CorruptSnapshot
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.readers.rocksdb import column_families, database_files, open_table
from stateproc.snapshot.metadata_tables import METADATA_TABLES
from stateproc.spark.options import source_options
from stateproc.spark.relations import relation
from tests.helpers.fixtures import fixtures_in
from tests.helpers.paths import FIXTURES

KITCHEN = FIXTURES / "1.20/kitchen-rocksdb-incremental/snapshot"


@pytest.fixture()
def run(run_command: Any) -> Any:
    def runner(*arguments: str) -> tuple[int, str, str]:
        ran = run_command(*arguments)
        return ran.status, ran.out, ran.err

    return runner


@pytest.fixture()
def copied(tmp_path: Path) -> Path:
    shutil.copytree(KITCHEN, tmp_path / "snapshot")
    return tmp_path / "snapshot"


def handles(path: Path) -> list[IncrementalHandle]:
    snapshot = stateproc.open(str(path))
    found = [file.handle for operator in snapshot.operators for file in operator.keyed_files]
    return [handle for handle in found if isinstance(handle, IncrementalHandle)]


def test_statistics_of_a_checkpoint_that_flink_wrote(run: Any) -> None:
    status, out, err = run("inspect", "--rocksdb", str(KITCHEN), "--json", "--uids", "kitchen-string")
    assert status == 0, err
    report = json.loads(out)
    assert (report["checkpoint_id"], report["since"]) == (2, None)
    (operator,) = [operator for operator in report["operators"] if operator["uid"] == "kitchen-string"]
    assert operator["problems"] == []
    states = {state["state"]: state for state in operator["states"]}
    products = states["products"]
    # Every element of a list is a separate merge operand until RocksDB compacts.
    assert (products["entries"], products["merge_operands"], products["levels"]) == (25, 25, {"0": 2})
    assert (products["files"], products["subtasks"], products["compressions"]) == (2, 1, ["Snappy"])
    assert products["bytes"] == sum(table["bytes"] for table in products["tables"])
    assert products["oldest_key_time"].startswith("20") and products["oldest_key_time"].endswith("Z")
    assert products["oldest_key_time"] <= products["newest_key_time"]
    assert {table["name"][-4:] for table in products["tables"]} == {".sst"}
    assert all(Path(table["path"]).stat().st_size == table["bytes"] for table in products["tables"])
    assert products["new_files"] is None and products["tables"][0]["new"] is None


def test_sums_equal_the_sizes_of_the_tables() -> None:
    table = METADATA_TABLES["rocksdb"].table(stateproc.open(str(KITCHEN)))
    rows = table.to_pylist()
    stored = sum(
        file.source.size
        for handle in handles(KITCHEN)
        for file in database_files(handle, stateproc.open(str(KITCHEN)).location)
        if file.name.endswith(".sst")
    )
    assert sum(row["bytes"] for row in rows) == stored
    assert len({(row["operator_id"], row["subtask"]) for row in rows}) == len(handles(KITCHEN)) == 4
    profile = next(row for row in rows if row["state"] == "profile")
    assert dict(profile["levels"]) == {0: profile["files"]}
    assert (profile["live_ratio"], profile["estimated_keys"]) == (1.0, profile["entries"])
    assert profile["oldest_key_time"].tzinfo is not None


def test_the_spark_table_has_the_columns_of_the_catalog() -> None:
    options = source_options({"path": str(KITCHEN), "table": "rocksdb"})
    (split,) = relation(options).splits(lambda _: None)
    (batch,) = split.read()
    assert batch.schema == METADATA_TABLES["rocksdb"].schema and batch.num_rows > 10


def test_files_absent_from_an_earlier_checkpoint_are_new(run: Any, copied: Path) -> None:
    # The earlier checkpoint has all files but one, for which its handle names another file.
    (metadata,) = copied.glob("*/chk-2/_metadata")
    name, stream = handles(copied)[0].shared[0]
    written = stream.path.encode()  # type: ignore[union-attr]
    other = written[:-8] + b"00000000"
    assert other != written
    metadata.write_bytes(metadata.read_bytes().replace(written, other))
    status, out, err = run("inspect", "--rocksdb", str(KITCHEN), "--since", str(copied), "--json")
    assert status == 0, err
    tables = [
        table
        for operator in json.loads(out)["operators"]
        for state in operator["states"]
        for table in state["tables"]
        if table["new"]
    ]
    assert [(table["name"], table["bytes"]) for table in tables] == [(name, stream.size)]
    assert tables[0]["path"].endswith(written.decode()[-36:])
    _, seen, _ = run("inspect", "--rocksdb", str(KITCHEN), "--since", str(copied))
    assert "since 2 " in seen and "1, " in seen


@pytest.mark.parametrize("release", ["1.20", "2.3"])
def test_new_files_in_a_chain_are_those_that_were_uploaded(release: str, run: Any) -> None:
    chain = fixtures_in(FIXTURES / release / "chain-rocksdb")
    checkpoints = [item.snapshot for item in chain if item.manifest["kind"] == "checkpoint"]
    shared_ones = 0
    for earlier, later in pairwise(checkpoints):
        known = {row["path"] for row in files(earlier)}
        status, out, err = run("inspect", "--rocksdb", later, "--since", earlier, "--json")
        assert status == 0, err
        states = [state for operator in json.loads(out)["operators"] for state in operator["states"]]
        tables = [table for state in states for table in state["tables"]]
        uploaded = {name(row["path"]) for row in files(later) if row["path"] not in known}
        assert {name(table["path"]) for table in tables if table["new"]} <= uploaded
        assert {name(table["path"]) for table in tables if not table["new"]}.isdisjoint(uploaded)
        assert sum(state["new_bytes"] for state in states) == sum(table["bytes"] for table in tables if table["new"])
        shared_ones += sum(not table["new"] for table in tables)
    assert len(checkpoints) >= 5 and shared_ones > 10


def files(path: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = METADATA_TABLES["files"].table(stateproc.open(path)).to_pylist()
    return [row for row in rows if row["path"] is not None]


def name(path: str) -> str:
    return path.rpartition("/")[2]


def test_a_checkpoint_has_no_new_files_since_itself(run: Any) -> None:
    _, out, _ = run("inspect", "--rocksdb", str(KITCHEN), "--since", str(KITCHEN), "--json")
    states = [state for operator in json.loads(out)["operators"] for state in operator["states"]]
    assert {state["new_files"] for state in states} == {0} and {state["new_bytes"] for state in states} == {0}


def test_materialized_state_of_a_changelog_has_tables(run: Any) -> None:
    status, out, _ = run("inspect", "--rocksdb", str(FIXTURES / "1.20/tiny-rocksdb-changelog/snapshot"), "--json")
    assert status == 0
    assert any(state["files"] for operator in json.loads(out)["operators"] for state in operator["states"])


def test_inapplicable_options_are_refused_with_advice(run: Any) -> None:
    status, out, err = run("inspect", "--rocksdb", str(FIXTURES / "1.20/demo/snapshot"))
    assert (status, out) == (2, "") and "no RocksDB databases" in err
    status, _, err = run("inspect", str(KITCHEN), "--since", str(KITCHEN))
    assert status == 2 and "--rocksdb" in err


def test_a_damaged_table_is_reported_and_other_operators_are_shown(run: Any, copied: Path) -> None:
    handle = handles(copied)[0]
    (table,) = copied.rglob(Path(handle.shared[0][1].path).name)  # type: ignore[union-attr]
    table.write_bytes(table.read_bytes()[:-1] + b"\0")
    status, out, _ = run("inspect", "--rocksdb", str(copied), "--json")
    problems = [operator["problems"] for operator in json.loads(out)["operators"]]
    assert status == 0
    assert [len(items) for items in problems].count(1) == 1
    assert table.name in str(problems) and "byte" in str(problems)


# --- checksums -----------------------------------------------------------------------------------------------


@pytest.fixture()
def miscounted(copied: Path) -> tuple[Path, str, str]:
    """Return path, operator and state of a checkpoint with a wrong checksum of an intact data block."""
    location = stateproc.open(str(copied)).location
    for operator in stateproc.open(str(copied)).operators:
        for file in operator.keyed_files:
            assert isinstance(file.handle, IncrementalHandle)
            files = database_files(file.handle, location)
            for family in column_families(files) or ():
                if family.name != "profile" or not family.files:
                    continue
                source = next(item.source for item in files if item.name == family.files[0].name)
                index = open_table(source).index()
                at = int(index.offsets[0] + index.sizes[0]) + 1
                data = bytearray(Path(source.name).read_bytes())
                data[at] ^= 0xFF
                Path(source.name).write_bytes(data)
                return copied, operator.operator_id, family.name
    raise AssertionError("no table of this state")


def test_checksums_are_checked_by_default(miscounted: tuple[Path, str, str]) -> None:
    path, operator, state = miscounted
    whole = stateproc.open(str(KITCHEN)).state(operator, state).to_arrow()
    assert whole.num_rows
    with pytest.raises(CorruptSnapshot, match="checksum") as caught:
        stateproc.open(str(path)).state(operator, state).to_arrow()
    assert caught.value.where.file is not None and caught.value.where.offset is not None
    assert stateproc.open(str(path), verify=False).state(operator, state).to_arrow() == whole


def test_no_verify_disables_checksums_on_the_command_line(run: Any, miscounted: tuple[Path, str, str]) -> None:
    path, operator, state = miscounted
    arguments = ("read", str(path), "--uid-hash", operator, "--state", state, "--format", "jsonl")
    assert run(*arguments)[0] == 3
    status, out, err = run(*arguments, "--no-verify")
    assert status == 0, err
    assert out == run("read", str(KITCHEN), *arguments[2:])[1]


def test_the_verify_option_is_sent_to_sparks_executors(miscounted: tuple[Path, str, str]) -> None:
    path, operator, state = miscounted
    for text, fails in (("true", True), ("FALSE", False)):
        options = source_options({"path": str(path), "uidhash": operator, "state": state, "verify": text})
        splits = pickle.loads(pickle.dumps(relation(options).splits(lambda _: None)))
        if fails:
            with pytest.raises(CorruptSnapshot, match="checksum"):
                list(splits[0].read())
        else:
            assert sum(batch.num_rows for split in splits for batch in split.read()) > 0
