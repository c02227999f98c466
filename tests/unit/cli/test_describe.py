"""``stateproc describe``: types of states in Flink, Arrow and Spark, and what conversion loses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pyarrow as pa
import pytest

import stateproc
from stateproc.cli import main
from stateproc.model.description import type_changes, type_node
from stateproc.serializers import LayoutContext
from stateproc.serializers.java.temporal import TEMPORAL, Temporal
from tests.helpers.paths import FIXTURES
from tests.helpers.sql_job import AGGREGATE, SQL

DEMO = str(FIXTURES / "1.20/demo/snapshot")
SCHEMA = json.loads((Path(stateproc.__file__).parent / "cli/json_schemas/describe.json").read_text(encoding="utf-8"))
Describe = Callable[..., str]


@pytest.fixture()
def describe(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Describe:
    def run(path: object, *arguments: str, columns: int = 140, status: int = 0) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        assert main(["describe", str(path), *arguments]) == status
        out, err = capfd.readouterr()
        return out if status == 0 else err

    return run


def test_a_pojo_is_shown_as_a_tree(describe: Describe) -> None:
    out = describe(DEMO, "--uid", "orders-per-customer", "--state", "profile")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "├ address Pojo fixtures.Profile$Address PojoSerializer v2 struct<…> struct<…>" in lines
    assert "│ ├ house Short ShortSerializer v3 int16 smallint" in lines
    assert "canonical · in 2 files · 128 key groups · PojoSerializer v2" in lines
    assert "△ value.address.street, value.name: half a surrogate pair, which is no character, becomes U+FFFD" in lines


@pytest.mark.parametrize("columns", [80, 140])
def test_all_states_of_an_operator_fit_the_terminal(describe: Describe, columns: int) -> None:
    out = describe(DEMO, "--uid", "orders-per-customer", columns=columns)
    assert all(len(line) <= columns for line in out.splitlines())
    for name in ("profile", "spent-per-product", "event timers", "processing timers"):
        assert f"\n{name}  " in out


def test_json_has_the_schema(describe: Describe) -> None:
    for arguments in (
        (DEMO, "--uid", "orders-per-customer"),
        (FIXTURES / "1.20/operators-hashmap-canonical/snapshot", "--uid", "6b15"),
        (FIXTURES / "1.20/operators-hashmap-canonical/snapshot", "--uid", "b5f9", "--operator-state", "rules"),
        (FIXTURES / "1.20/many-states-hashmap-canonical/snapshot",),
        (SQL, "--uid-hash", AGGREGATE[:4], "--temporal", "exact"),
    ):
        jsonschema.validate(json.loads(describe(*arguments, "--json")), SCHEMA, jsonschema.Draft202012Validator)


def test_sql_types_are_those_of_the_query(describe: Describe) -> None:
    (state,) = json.loads(describe(SQL, "--uid", AGGREGATE, "--state", "accState", "--json"))["states"]
    key, value = state["types"]
    assert (key["name"], key["type"]) == ("key", "ROW<f0 STRING>")
    assert [(field["name"], field["type"], field["arrow"]) for field in value["fields"]] == [
        ("f0", "BIGINT", "int64"),
        ("f1", "DOUBLE", "double"),
        ("f2", "BIGINT", "int64"),
        ("f3", "RAW(org.apache.flink.table.api.dataview.MapView)", "bool"),
    ]
    assert value["fields"][0]["serializer"].endswith("LongSerializer$LongSerializerSnapshot")
    assert "always null" in value["fields"][3]["changes"][0]


def test_a_time_to_live_is_shown(describe: Describe) -> None:
    path = FIXTURES / "1.20/kitchen-hashmap-canonical/snapshot"
    ttl = [state for state in stateproc.open(str(path)).states if state.ttl]
    description = ttl[0].describe()
    assert description.ttl and description.columns[-1].name == "last_access"
    assert "TtlSerializerSnapshot" in (description.storage.serializer or "") or description.kind != "value"
    assert "last_access" in describe(path, "--uid", description.operator_id)


def test_digits_below_a_microsecond_are_mentioned() -> None:
    for name in ("Instant", "LocalDateTime", "LocalTime", "java.sql.Timestamp"):
        kind = next(kind for kind in TEMPORAL if kind.type == name)
        micros, exact = (
            type_node("value", Temporal(kind), LayoutContext(temporal=temporal), {}) for temporal in ("micros", "exact")
        )
        assert micros.changes == ("digits below a microsecond are cut off; temporal='exact' keeps them",)
        assert (exact.arrow, exact.changes) == ("string", ("ISO-8601 text with all digits",))
    assert not list(type_changes("TIMESTAMP(3)", pa.timestamp("us"), "micros"))
    assert list(type_changes("TIMESTAMP_LTZ(9) NOT NULL", pa.timestamp("us", "UTC"), "micros"))


def test_an_unreadable_state_says_why(describe: Describe) -> None:
    out = describe(FIXTURES / "1.20/many-states-hashmap-canonical/snapshot", "--state", "account")
    assert "MoneySerializer" in out and "register a parser" in out and "unknown" in out


def test_what_does_not_exist_is_refused(describe: Describe) -> None:
    assert "did you mean 'profile'" in describe(DEMO, "--uid", "orders-per-customer", "--state", "profle", status=2)
    assert "which operator?" in describe(DEMO, status=2)
    assert "has no states" in describe(SQL, "--uid", "60ad15c2138de97bf8210462790523dc", status=2)
