"""The table of changes: every row is made from plain values and from arguments, and calls its methods of the writer."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from stateproc.errors import InvalidOption, MissingFile
from stateproc.writers.changes import CHANGES, CHANGES_BY_NAME, ChangeDefinition, change_from_dict, changes_schema
from stateproc.writers.changes.snapshot_changes import read_offsets

TIME = 1_769_860_800_000
CALLS: dict[str, list[tuple[Any, ...]]] = {
    "convert": [("with_format", "native-rocksdb")],
    "rescale": [("with_max_parallelism", 1024), ("with_parallelism", "orders", 8)],
    "upgrade": [
        ("with_flink_version", "2.3"),
        ("with_scala_types", "flink-scala-api"),
        ("with_flink_cdc_classes",),
    ],
    "rename-operator": [("change_operator_identifier", "orders", "orders-v2")],
    "drop-operator": [("remove_operator", "orders"), ("remove_operator", "customers")],
    "drop-state": [("drop_state", "orders", "totals")],
    "drop-pending": [("drop_pending", "invoices-sink")],
    "rename-state": [("rename_state", "orders", "totals", "sums")],
    "delete": [("delete_rows", "orders", "totals", "key = 42", {"flatten": False})],
    "update": [("update_rows", "orders", "totals", ("value.total = 0",), "key = 42", {"flatten": False})],
    "evolve": [
        (
            "evolve",
            "old.json",
            "new.json",
            {
                "mapped": {"6_group-aggregate": "9_group-aggregate"},
                "empty": ("12_join",),
                "new_aggregates": "empty",
                "emitted": "keep",
                "fill": {"14_join.left.discount": "0"},
            },
        )
    ],
    "evolve-type": [
        (
            "evolve_type",
            "orders",
            "totals",
            "Long",
            {
                "rename": {"customer": "buyer"},
                "assignments": ("value.note = 'none'",),
                "kind": "map",
                "map_key_type": "String",
            },
        )
    ],
    "ttl-enable": [("enable_ttl", "orders", "totals", TIME)],
    "ttl-disable": [("disable_ttl", "orders", "totals")],
    "ttl-purge": [("purge_expired", "orders", "totals", timedelta(days=7), TIME)],
    "set-offsets": [
        (
            "set_kafka_offsets",
            "orders",
            {"shop.orders:0": 845180, "shop.orders:1": "latest"},
            {"topics": {"returns": "earliest"}, "everywhere": "committed", "remove": ("shop.orders:7",)},
        ),
        ("set_positions", "orders", {"shop.orders-2": "845180"}),
        ("drop_kafka_transactions", "invoices"),
    ],
    "move-source": [
        (
            "move_source",
            "old-orders",
            "orders",
            {"enumerator_version": 1, "stream_arn": "arn:aws:kinesis:::stream/orders"},
        )
    ],
    "drop-in-flight-data": [("drop_in_flight_data",)],
}
"""SnapshotChange → the calls of SavepointWriter that its sample results in."""


class RecordingWriter:
    """Records the calls of its methods."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *given, **named: self.calls.append((name, *given, *([named] if named else [])))


@pytest.mark.parametrize("definition", CHANGES, ids=lambda item: item.name)
def test_each_change_calls_its_methods_of_the_writer(definition: ChangeDefinition) -> None:
    writer: Any = RecordingWriter()
    change = change_from_dict({definition.name: dict(definition.sample)})
    assert type(change) is definition.kind
    change.apply(writer)
    assert writer.calls == CALLS[definition.name]


@pytest.mark.parametrize("definition", CHANGES, ids=lambda item: item.name)
def test_each_change_is_described(definition: ChangeDefinition) -> None:
    assert dataclasses.is_dataclass(definition.kind) and definition.kind.__dataclass_params__.frozen
    assert definition.summary and definition.summary[0].islower()
    assert all(field.help for field in definition.fields)
    assert definition.name == "-".join(definition.words) or not definition.words
    assert bool(definition.words) == bool(definition.examples)


@pytest.mark.parametrize("definition", CHANGES, ids=lambda item: item.name)
def test_the_schema_accepts_samples_and_refuses_others(definition: ChangeDefinition) -> None:
    validator = jsonschema.Draft202012Validator(changes_schema())
    sample = dict(definition.sample)
    assert validator.is_valid([{definition.name: sample}])
    assert not validator.is_valid([{definition.name: {**sample, "unknown": 1}}])
    for field in definition.fields:
        left = {name: value for name, value in sample.items() if name != field.name}
        assert validator.is_valid([{definition.name: left}]) is not field.required


@pytest.mark.parametrize("definition", CHANGES, ids=lambda item: item.name)
def test_required_and_unknown_fields_are_named(definition: ChangeDefinition) -> None:
    for field in definition.fields:
        left = {name: value for name, value in definition.sample.items() if name != field.name}
        if field.required:
            with pytest.raises(InvalidOption, match=f"{definition.name} without '{field.name}'"):
                definition.make(left)
            with pytest.raises(InvalidOption, match=f"{' '.join(definition.words)} without {field.flag}"):
                definition.make(left, flags=True)
    with pytest.raises(InvalidOption, match=f"{definition.name} has no field 'unknown'"):
        definition.make({**definition.sample, "unknown": 1})
    with pytest.raises(InvalidOption, match="has no option --un-known"):
        definition.make({"un_known": 1}, flags=True)


def test_arguments_give_the_same_change_as_plain_values() -> None:
    rescale = CHANGES_BY_NAME["rescale"]
    arguments = {"max_parallelism": "256", "parallelism": ["a=b=3", "c=4"], "hash_function": None}
    assert rescale.make(arguments, flags=True) == rescale.make(
        {"max_parallelism": 256, "parallelism": {"a=b": 3, "c": 4}}
    )
    purge = CHANGES_BY_NAME["ttl-purge"]
    arguments = {"uid": "u", "state": ["s", "t"], "ttl": "90min", "now": "2026-01-31T13:00:00+01:00"}
    assert purge.make(arguments, flags=True) == purge.kind("u", ("s", "t"), timedelta(minutes=90), TIME)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("rescale", {"max_parallelism": "many"}, "max_parallelism is 'many'\n  → give a whole number"),
        ("rescale", {"max_parallelism": True}, "give a whole number"),
        ("rescale", {"parallelism": {"a": "x"}}, "give a whole number"),
        ("rescale", {"parallelism": 3}, "give an object of names"),
        ("convert", {"to": "rocksdb"}, "give one of canonical, native-hashmap, native-rocksdb"),
        ("convert", {"to": "canonical", "compressed": "yes"}, "give true or false"),
        ("ttl-purge", {"uid": "u", "state": "s", "ttl": "a week"}, "give a duration such as '7 d'"),
        ("ttl-purge", {"uid": "u", "state": "s", "ttl": "999999999999999 d"}, "give a duration"),
        ("ttl-purge", {"uid": "u", "state": "s", "ttl": "1 s", "now": "2026-01-31T12:00:00"}, "with its offset"),
        ("ttl-enable", {"uid": "u", "state": "s", "last_access": 1 << 63}, "give a time such as"),
        ("drop-operator", {"uid": []}, "a name, or a list of names"),
        ("drop-operator", {"uid": ""}, "a name, or a list of names"),
        ("rename-operator", {"uid": 3, "to": "x"}, "text that is not empty"),
    ],
)
def test_values_that_do_not_fit_are_refused(name: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption) as error:
        change_from_dict({name: values})
    assert message in str(error.value)


@pytest.mark.parametrize("given", [{}, {"a": {}, "b": {}}, "convert", {"convrt": {}}, {"convert": "canonical"}])
def test_what_is_no_change_is_refused(given: Any) -> None:
    with pytest.raises(InvalidOption):
        change_from_dict(given)


def test_arguments_without_a_value_by_name_are_refused() -> None:
    for given in (["a"], ["=3"], ["a=3", "a=4"]):
        with pytest.raises(InvalidOption, match="give UID=N"):
            CHANGES_BY_NAME["rescale"].make({"parallelism": given}, flags=True)


def test_a_rescale_needs_a_number() -> None:
    with pytest.raises(InvalidOption, match="rescale without a number"):
        change_from_dict({"rescale": {}}).apply(RecordingWriter())  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="options of RocksDB for the format canonical"):
        change_from_dict({"convert": {"to": "canonical", "rocksdb_options": {"a": 1}}}).apply(RecordingWriter())  # type: ignore[arg-type]


def test_times_are_those_of_the_clock_or_of_the_epoch() -> None:
    moment = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
    for given in ("2026-01-31T12:00:00Z", TIME, str(TIME), moment):
        change = change_from_dict({"ttl-enable": {"uid": "u", "state": "s", "last_access": given}})
        assert change.last_access == TIME  # type: ignore[attr-defined]


@pytest.mark.processes
def test_the_table_imports_neither_arrow_nor_spark() -> None:
    """``--help`` builds the arguments of the verbs from it."""
    program = (
        "import json, sys, stateproc.writers.changes; "
        "print(json.dumps(sorted({'pyarrow', 'pyspark', 'numpy', 'pandas'} & set(sys.modules))))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == []


def test_offsets_of_a_file_are_joined_by_those_given(tmp_path: Path) -> None:
    path = tmp_path / "offsets.csv"
    path.write_text("offset,topic,partition,more\n17,shop.orders,0,x\nlatest,shop.orders,1,\n3,returns, 2,\n")
    writer: Any = RecordingWriter()
    values = {"uid": "orders", "file": str(path), "offsets": {"shop.orders:0": 18}}
    change_from_dict({"set-offsets": values}).apply(writer)
    offsets = {"shop.orders:0": 18, "shop.orders:1": "latest", "returns:2": "3"}
    nothing = {"topics": None, "everywhere": None, "remove": ()}
    assert writer.calls == [("set_kafka_offsets", "orders", offsets, nothing)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topic,partition\na,1\n", "has no column offset"),
        ("topic,partition,offset\na,1,\n", "line 2 has no value"),
        ("topic,partition,offset\na,1,2\na,1,3\n", "line 3 names a:1 again"),
    ],
)
def test_files_without_offsets_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "offsets.csv"
    path.write_text(text)
    with pytest.raises(InvalidOption, match=message):
        read_offsets(str(path))
    with pytest.raises(MissingFile):
        read_offsets(str(tmp_path / "other.csv"))


@pytest.mark.parametrize(
    "values",
    [{}, {"uid": "a"}, {"offsets": {"t:0": 1}}, {"all": "latest", "drop_transactions": "sink"}],
)
def test_set_offsets_needs_a_source_and_offsets(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match="set-offsets without"):
        change_from_dict({"set-offsets": values}).apply(RecordingWriter())  # type: ignore[arg-type]
