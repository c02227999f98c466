"""Names, types and contents of the metadata tables."""

from __future__ import annotations

import json

import stateproc
from stateproc.snapshot.metadata_tables import METADATA_TABLES
from tests.helpers.paths import FIXTURES


def snapshot(name: str, *uids: str) -> stateproc.Snapshot:
    return stateproc.open(str(FIXTURES / name / "snapshot"), uids=uids)


def test_operators_has_the_columns_of_flinks_savepoint_metadata() -> None:
    table = METADATA_TABLES["operators"].table(snapshot("1.20/demo", "orders-from-kafka"))
    assert table.column_names == [
        "checkpoint-id", "operator-name", "operator-uid", "operator-uid-hash", "operator-parallelism",
        "operator-max-parallelism", "operator-subtask-state-count",
        "operator-coordinator-state-size-in-bytes", "operator-total-size-in-bytes",
    ]  # fmt: skip
    by_uid = {row["operator-uid"]: row for row in table.to_pylist()}
    assert by_uid["orders-from-kafka"] == {
        "checkpoint-id": 1, "operator-name": None, "operator-uid": "orders-from-kafka",
        "operator-uid-hash": "7dbbd28ecda0a6fc7393b23ce693e230", "operator-parallelism": 2,
        "operator-max-parallelism": 128, "operator-subtask-state-count": 2,
        "operator-coordinator-state-size-in-bytes": 143, "operator-total-size-in-bytes": 836,
    }  # fmt: skip


def test_names_and_uids_of_flink_2_are_read_from_the_snapshot() -> None:
    rows = METADATA_TABLES["operators"].table(snapshot("2.3/kafka-rocksdb-canonical")).to_pylist()
    assert [(row["operator-uid"], row["operator-name"]) for row in rows] == [
        ("orders-per-customer", "Orders per customer"),
        ("orders-from-kafka", "Source: Orders from Kafka"),
        ("revenue-per-product", "Revenue per product"),
    ]


def test_sizes_of_files_add_up_to_the_operators_sizes() -> None:
    opened = snapshot("1.20/demo")
    files = METADATA_TABLES["files"].table(opened).group_by("operator_id").aggregate([("bytes", "sum")]).to_pylist()
    operators = METADATA_TABLES["operators"].table(opened).to_pylist()
    assert {row["operator_id"]: row["bytes_sum"] for row in files} == {
        row["operator-uid-hash"]: row["operator-total-size-in-bytes"] for row in operators
    }


def test_files_have_paths_and_ranges() -> None:
    rows = METADATA_TABLES["files"].table(snapshot("1.20/demo")).to_pylist()
    assert {row["role"] for row in rows} == {"managed keyed", "managed operator", "coordinator"}
    for row in rows:
        assert (row["path"] is None) == (row["start"] is None)
        assert (row["subtask"] is None) == (row["role"] == "coordinator")


def test_coordinators_contain_the_decoded_enumerator_state() -> None:
    [row] = METADATA_TABLES["coordinators"].table(snapshot("1.20/demo")).to_pylist()
    assert (row["kind"], row["version"], row["format"]) == ("source", 2, "kafka")
    decoded = json.loads(row["decoded"])
    assert sorted(item["partition"] for item in decoded["partitions"]) == [0, 1, 2, 3, 4, 5]
    assert decoded["initial_discovery_finished"] is True


def test_numbers_of_elements_and_bytes_of_operator_states() -> None:
    rows = METADATA_TABLES["states"].table(snapshot("1.20/operators-hashmap-canonical")).to_pylist()
    found = {row["state"]: (row["kind"], row["distribution"], row["entries"] is None) for row in rows}
    assert found == {
        "split": ("list", "split", False), "union": ("list", "union", False),
        "empty": ("list", "split", False), "names": ("broadcast", "broadcast", True),
        "rules": ("broadcast", "broadcast", True),
    }  # fmt: skip
    assert {row["state"]: row["entries"] for row in rows}["empty"] == 0


def test_tables_of_a_selected_operator() -> None:
    opened = snapshot("1.20/demo", "orders-from-kafka")
    [row] = METADATA_TABLES["states"].table(opened, [opened.operator("orders-from-kafka")]).to_pylist()
    assert (row["state"], row["entries"], row["value_type"]) == ("SourceReaderState", 5, "byte[]")
