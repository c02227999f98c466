"""Commands of the command line on savepoints that Flink wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.helpers.fixtures import Fixture, fixtures
from tests.helpers.paths import FIXTURES

DEMO = str(FIXTURES / "1.20/demo/snapshot")
ROCKSDB = str(FIXTURES / "1.20/kitchen-rocksdb-incremental/snapshot")
CUSTOMERS = ["--uid", "orders-per-customer"]
# Only the last snapshot of a chain.
LAST_OF_1_20 = list({item.path: item for item in fixtures() if item.path.parent.name == "1.20"}.values())


def expected(uid: str, state: str, kind: str) -> list[dict[str, Any]]:
    lines = (FIXTURES / "1.20/demo/expected.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [row for row in rows if (row["uid"], row["state"], row["kind"]) == (uid, state, kind)]


@pytest.fixture
def run(run_command: Any) -> Any:
    return run_command


def test_values_equal_those_that_the_job_recorded(run: Any) -> None:
    rows = run("read", DEMO, *CUSTOMERS, "--state", "profile").rows
    wanted = {row["key"]: row["value"] for row in expected("orders-per-customer", "profile", "value")}
    assert len(rows) == 300
    assert {row["key"]: row["value"] for row in rows} == wanted


def test_maps_are_flattened(run: Any) -> None:
    rows = run("read", DEMO, *CUSTOMERS, "--state", "spent-per-product", "--flatten", "--where", "key IN (7, 8)").rows
    found = {key: {row["map_key"]: row["map_value"] for row in rows if row["key"] == key} for key in (7, 8)}
    wanted = {row["key"]: row["value"] for row in expected("orders-per-customer", "spent-per-product", "map")}
    assert found == {key: {item["key"]: item["value"] for item in wanted[key]} for key in (7, 8)}
    assert len(rows) == sum(len(mapping) for mapping in found.values())


def test_a_condition_on_the_key_reads_only_its_key_group() -> None:
    import stateproc
    from stateproc.model.state import FilteredScan

    state = stateproc.open(DEMO).state("orders-per-customer", "profile")
    rows = FilteredScan(state, "key = 42")
    assert [split.key_groups for split in rows.splits] == [(29,)]
    assert [row["key"] for batch in rows.batches(lambda _: None) for row in batch.to_pylist()] == [42]
    assert [split.key_groups for split in FilteredScan(state, "key_group = 29 AND key = 1").splits] == []


def test_columns_and_limit(run: Any) -> None:
    ran = run("read", DEMO, *CUSTOMERS, "--state", "profile", "--columns", "value,key", "--limit", "7")
    assert len(ran.rows) == 7
    assert [list(row) for row in ran.rows] == [["value", "key"]] * 7
    assert run("read", DEMO, *CUSTOMERS, "--state", "profile", "--limit", "0").rows == []


@pytest.mark.parametrize("more", [[], ["--where", "key < 200"], ["--limit", "250"]])
def test_rows_and_counts_do_not_depend_on_the_number_of_threads(more: list[str], run: Any) -> None:
    read = ["read", DEMO, *CUSTOMERS, "--state", "profile", *more]
    assert len(run(*read, "--threads", "4").rows) == (300 if not more else int(more[-1].split()[-1]))
    assert run(*read, "--threads", "4").out == run(*read, "--threads", "1").out
    inspect = ["inspect", DEMO, "--scan", "--json"]
    assert run(*inspect, "--threads", "4").out == run(*inspect, "--threads", "1").out


def test_a_filter_may_use_columns_that_are_not_shown(run: Any) -> None:
    ran = run(
        "read",
        DEMO,
        *CUSTOMERS,
        "--state",
        "profile",
        "--columns",
        "key",
        "--where",
        "value.name = 'customer № 9'",
    )
    assert ran.rows == [{"key": 9}]


def test_timers(run: Any) -> None:
    rows = run("read", DEMO, *CUSTOMERS, "--timers", "event").rows
    assert len(rows) == len(expected("orders-per-customer", "user-timers", "timer-event"))
    assert {row["service"] for row in rows} == {"user-timers"}


def test_window_contents(run: Any) -> None:
    rows = run("read", DEMO, "--uid", "revenue-per-product", "--state", "window-contents").rows
    wanted = expected("revenue-per-product", "window-contents", "window")
    assert sorted(json.dumps(row["value"], sort_keys=True) for row in rows) == sorted(
        json.dumps(row["value"], sort_keys=True) for row in wanted
    )
    assert all(row["namespace"]["end"] - row["namespace"]["start"] == 600_000 for row in rows)


def test_all_states_of_one_namespace_type(run: Any) -> None:
    rows = run("read", DEMO, "--uid", "revenue-per-product", "--namespace", "TimeWindow").rows
    contents = run("read", DEMO, "--uid", "revenue-per-product", "--state", "window-contents").rows
    assert [row["window-contents"] for row in rows] == [row["value"] for row in contents]


def test_without_a_state_there_is_one_row_per_key(run: Any) -> None:
    (row,) = run("read", DEMO, *CUSTOMERS, "--where", "key = 42").rows
    assert list(row) == ["key_group", "key", "profile", "spent-per-product"]
    assert row["profile"]["name"] == "customer № 42"


def test_source_splits_are_read_decoded_and_raw(run: Any) -> None:
    rows = run("read", DEMO, "--uid", "orders-from-kafka").rows
    wanted = [
        {"subtask": row["subtask"], **row["value"]}
        for row in expected("orders-from-kafka", "SourceReaderState", "splits")
    ]
    assert sorted(rows, key=lambda row: row["partition"]) == sorted(wanted, key=lambda row: row["partition"])
    raw = run("read", DEMO, "--uid", "orders-from-kafka", "--operator-state", "SourceReaderState", "--raw").rows
    assert {type(row["value"]) for row in raw} == {str}


def test_offsets(run: Any) -> None:
    rows = run("offsets", DEMO, "--uids", "orders-from-kafka", "--json").rows
    wanted = {
        row["value"]["partition"]: row["value"]["starting_offset"]
        for row in expected("orders-from-kafka", "SourceReaderState", "splits")
    }
    assert {row["partition"]: row["offset"] for row in rows} == {**wanted, 5: None}
    assert [row["partition"] for row in rows] == [0, 1, 2, 3, 4, 5]
    assert rows[5] == {
        "operator": "orders-from-kafka",
        "connector": "kafka",
        "split": "shop.orders-5",
        "kind": "offset",
        "position": None,
        "phase": None,
        "stops_at": None,
        "subtask": None,
        "topic": "shop.orders",
        "partition": 5,
        "offset": None,
        "stopping_offset": None,
    }
    assert "not assigned" in run("offsets", DEMO).out


def test_offsets_of_a_snapshot_without_sources(run: Any) -> None:
    ran = run("offsets", str(FIXTURES / "1.20/windows-hashmap-canonical/snapshot"))
    assert ran.status == 1
    assert "no source positions" in ran.err


def test_inspect_json(run: Any) -> None:
    ran = run("inspect", DEMO, "--json", "--uids", "orders-per-customer")
    report = json.loads(ran.out)
    assert report["kind"] == "canonical savepoint"
    assert report["flink_versions"] == "1.16 – 1.20"
    by_hash = {operator["uid_hash"]: operator for operator in report["operators"]}
    customers = by_hash["25afd583284baa21fbad98ede8b720b0"]
    assert customers["uid"] == "orders-per-customer"
    assert customers["layouts"] == ["canonical"]
    states = {state["name"]: state for state in customers["states"]}
    entries = {name: state["entries"] for name, state in states.items()}
    maps = expected("orders-per-customer", "spent-per-product", "map")
    assert entries == {
        "profile": 300, "spent-per-product": sum(len(row["value"]) for row in maps), "event timers": 300,
        "processing timers": 300,
    }  # fmt: skip
    # Two bytes of state id at the start of a key group, and two after each of its states.
    framing = sum(customers["key_group_bytes"].values()) - sum(state["bytes"] for state in states.values())
    assert framing % 2 == 0 and 0 < framing <= 2 * 5 * len(customers["key_group_bytes"])
    assert states["profile"]["columns"]["key"] == "int64"
    kafka = by_hash["7dbbd28ecda0a6fc7393b23ce693e230"]
    assert kafka["coordinator"]["format"] == "kafka"
    assert len(kafka["coordinator"]["decoded"]["partitions"]) == 6


def test_inspect_of_one_operator(run: Any) -> None:
    report = json.loads(run("inspect", DEMO, "--json", "--uid", "orders-per-customer").out)
    assert [operator["uid"] for operator in report["operators"]] == ["orders-per-customer"]


def test_inspect_as_text(run: Any) -> None:
    ran = run("inspect", DEMO)
    assert "106 of 128 hold data" in ran.out
    assert "Map<String, Double>" in ran.out
    assert "--uids" in ran.out
    assert "\x1b" not in ran.out
    assert all(line == line.rstrip() for line in ran.out.splitlines())


def test_inspect_names_the_selected_checkpoint(run: Any) -> None:
    report = json.loads(run("inspect", ROCKSDB, "--json").out)
    assert report["path"].endswith("/chk-2")
    assert "chk-2" in report["note"]
    assert report["operators"][0]["layouts"] == ["rocksdb"]


@pytest.mark.parametrize("fixture", LAST_OF_1_20, ids=lambda fixture: fixture.name)
def test_inspect_reads_every_fixture(fixture: Fixture, run: Any) -> None:
    key_type = fixture.manifest.get("key_type")
    report = json.loads(run("inspect", fixture.snapshot, "--json", *(["--key-type", key_type] if key_type else [])).out)
    assert report["operators"]
    for operator in report["operators"]:
        assert operator["problems"] == []
        for state in operator["states"]:
            assert state["columns"] or state["problem"], (operator["uid_hash"], state["name"])


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv", "jsonl"])
def test_read_writes_files(form: str, run: Any, tmp_path: Path) -> None:
    target = tmp_path / f"profiles.{form}"
    ran = run("read", DEMO, *CUSTOMERS, "--state", "profile", "--output", str(target))
    assert ran.status == 0
    assert ran.err.startswith(f"300 rows to {target}")
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
    if form == "parquet":
        assert pa.parquet.read_table(target).num_rows == 300
    elif form == "arrow":
        assert pa.ipc.open_file(target).read_all().num_rows == 300
    else:
        assert len(target.read_text(encoding="utf-8").splitlines()) == 300 + (form == "csv")


def test_a_failed_write_leaves_no_file(run: Any, tmp_path: Path) -> None:
    target = tmp_path / "x.parquet"
    ran = run("read", DEMO, *CUSTOMERS, "--state", "profile", "--where", "value.name > 1", "--output", str(target))
    assert ran.status == 2
    assert list(tmp_path.iterdir()) == []
    assert run("read", DEMO, *CUSTOMERS, "--state", "profile", "--output", "/nowhere/x.csv").status == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["inspect", "/nowhere"], "/nowhere"),
        (["read", DEMO, "--uid", "order-per-customer", "--uids", "orders-per-customer"], "did you mean"),
        (["read", DEMO, *CUSTOMERS, "--state", "profil"], "did you mean 'profile'"),
        (["read", DEMO], "--uid-hash 25afd583284baa21fbad98ede8b720b0"),
        (["read", DEMO, *CUSTOMERS, "--state", "profile", "--columns", "k"], "key_group, key, value"),
        (["read", DEMO, *CUSTOMERS, "--state", "profile", "--output", "x.txt"], "--format"),
        (["read", DEMO, *CUSTOMERS, "--operator-state", "profile"], "there are none"),
        (["inspect", DEMO, "--classes", "/nowhere.json"], "class descriptions '/nowhere.json' cannot be read"),
        (["inspect", DEMO, "--path-mapping", "x"], "--path-mapping x"),
        (["inspect", DEMO, "--threads", "0"], "--threads 0"),
        (["read", DEMO, *CUSTOMERS, "--state", "profile", "--threads", "-1"], "a number of threads from 1 to 9999"),
        (["inspect", DEMO, "--plugins", "no.such.module"], "no.such.module"),
    ],
)
def test_errors_are_printed_with_advice(arguments: list[str], says: str, run: Any) -> None:
    ran = run(*arguments)
    assert ran.status == (3 if arguments == ["inspect", "/nowhere"] else 2)
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert says in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.processes
def test_a_broken_pipe_prints_no_error() -> None:
    command = f"{sys.executable} -m stateproc read {DEMO} --uid orders-per-customer --state profile | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=os.environ, check=False)
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


def test_a_query_with_a_condition_reads_the_metadata_once(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from stateproc.snapshot.snapshot import Snapshot

    built = []
    initialize = Snapshot.__init__
    monkeypatch.setattr(Snapshot, "__init__", lambda self, *given: (built.append(self), initialize(self, *given))[1])
    assert len(run("read", DEMO, *CUSTOMERS, "--state", "profile", "--where", "key = 42 AND key_group = 29").rows) == 1
    assert len(built) == 1


def test_a_missing_uid_lists_the_operators_with_their_properties(run: Any) -> None:
    offered = run("read", DEMO, "--uids", "orders-per-customer").err.splitlines()
    (customers,) = (line for line in offered if "--uid orders-per-customer" in line)
    assert "parallelism 2" in customers and "states: profile, spent-per-product" in customers
    (source,) = (line for line in offered if "SourceReaderState" in line)
    assert source.strip().startswith("--uid-hash 7dbbd28ecda0a6fc7393b23ce693e230")


def test_counts_are_printed_with_singular_or_plural(run: Any) -> None:
    assert "1 operator, 4 states" in run("inspect", DEMO, "--uid", "orders-per-customer").out
    assert "3 operators, 8 states" in run("inspect", DEMO).out


def test_inspect_explains_missing_sizes(run: Any) -> None:
    changelog = str(FIXTURES / "1.20/tiny-hashmap-changelog/snapshot")
    assert "a changelog has to be replayed" in run("inspect", changelog).out
    assert "--rocksdb shows the statistics" in run("inspect", ROCKSDB).out
    demo = json.loads(run("inspect", DEMO, "--json").out)
    assert [operator["notes"] for operator in demo["operators"]] == [[], [], []]


def test_inspect_explains_map_views_in_accumulators(run: Any) -> None:
    shown = run("inspect", str(FIXTURES / "1.20/sql-hashmap-canonical/snapshot")).out
    assert "RAW(…MapView) is a view of a map state of this operator" in " ".join(shown.split())


def test_every_unreadable_state_is_counted(run: Any) -> None:
    """In native heap files two unknown classes make the states after them unreadable, too."""
    edges = str(FIXTURES / "1.20/edges-hashmap-checkpoint/snapshot")
    report = json.loads(run("inspect", edges, "--json", "--uids", "edges-generic").out)
    unreadable = {operator["uid"]: operator["unreadable_states"] for operator in report["operators"]}
    assert unreadable.pop("edges-generic") == 5
    assert not any(unreadable.values())
    generic = next(operator for operator in report["operators"] if operator["uid"] == "edges-generic")
    assert [state["name"] for state in generic["states"] if state["problem"]] == [
        state["name"] for state in generic["states"]
    ]
    assert "(5 unreadable)" in run("inspect", edges).out
