"""Rows that joins, deduplication and TopN keep get other columns.

`tests/vectors/changed-rows.tar.xz` has a job that Flink 2.3 ran, and the plan of its next version, in which tables have
more columns, at other positions; real Flink restores what is written in tests/integration/flink/test_evolved_rows.py.
"""

from __future__ import annotations

import copy
import json
import tarfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter
from stateproc.errors import InvalidOption, NotFound, SnapshotError
from stateproc.query_plans.plan_file import read_plan
from stateproc.query_plans.plan_matching import matched_plans, positions
from stateproc.query_plans.row_conversion import NewQuery, row_conversions
from tests.helpers.fixtures import FIXTURES
from tests.helpers.paths import ROOT
from tests.helpers.plan_parts import with_inputs
from tests.helpers.planned_states import planned_job

READS_EVERY_MODE = False
FILL = {"32_join.left.discount": "amount / 10"}
Json = dict[str, Any]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    with tarfile.open(ROOT / "tests/vectors/changed-rows.tar.xz") as archive:
        archive.extractall(folder)
    return folder / "changed-rows"


def evolved(job: Path, fill: dict[str, str], edit: Callable[[Json], object] = lambda _: None) -> SavepointWriter:
    new: Json = copy.deepcopy(json.loads((job / "new.json").read_text()))
    edit(new)
    writer = SavepointWriter.from_existing_savepoint(None, str(job / "savepoint"))
    return writer.evolve(str(job / "old.json"), new, fill=fill)


def node_of(plan: Json, number: int) -> Json:
    found: Json = next(node for node in plan["nodes"] if node["id"] == number)
    return found


def source_of(plan: Json, table: str) -> Json:
    found: Json = next(node for node in plan["nodes"] if f"`{table}`" in str(node.get("scanTableSource")))
    return found


def test_new_columns_are_null_or_what_an_expression_gives(job: Path, tmp_path: Path) -> None:
    target = evolved(job, FILL).write(tmp_path / "target")
    found = stateproc.open(target, plan=str(job / "new.json"))
    before = stateproc.open(str(job / "savepoint"), plan=str(job / "old.json"))
    # Without a unique key rows are keys of maps, with their numbers.
    left = found.state("6_join", "left-records").to_arrow()
    rows = [dict(pair[0], n=pair[1]) for pairs in left.column("value").to_pylist() for pair in pairs]
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"note": None, "id": number, "n": 2 if number == 2 else 1} for number in (1, 2, 3, 4, 5)
    ]
    named = found.state("32_join", "left-records").to_arrow()
    rows = [pair[0] for pairs in named.column("value").to_pylist() for pair in pairs]
    assert {(row["id"], row["amount"], row["discount"]) for row in rows} == {
        (1, 10.0, 1.0), (2, 4.5, 0.45), (3, 20.0, 2.0), (4, -1.0, -0.1), (5, 0.0, 0.0)
    }  # fmt: skip
    assert left.column("key_group").to_pylist() == (
        before.state("6_join", "left-records").to_arrow().column("key_group").to_pylist()
    )
    assert found.verify().is_intact


def test_the_plan_says_what_becomes_of_columns(job: Path) -> None:
    plan = str(evolved(job, FILL).plan())
    for words in (
        "as Join[32]: left: discount = amount / 10 in rows from before, right: phone = NULL in rows from before",
        "as Rank[56]: weights = NULL in rows from before, note = NULL in rows from before",
        "as Deduplicate[73]: page = NULL in rows from before",
    ):
        assert words in plan, plan


def _is_changelog(plan: Json) -> None:
    source_of(plan, "payments")["scanTableSource"]["table"]["resolvedTable"]["options"]["format"] = "debezium-json"


def _is_changelog_of_customers(plan: Json) -> None:
    source_of(plan, "customers")["scanTableSource"]["table"]["resolvedTable"]["options"]["format"] = "debezium-json"


def _is_computed(plan: Json) -> None:
    """A column that is never null: as what is before the rank takes it back."""
    (exchange,) = [edge["source"] for edge in plan["edges"] if edge["target"] == 67]
    (before,) = [edge["source"] for edge in plan["edges"] if edge["target"] == exchange]
    made = {"kind": "CALL", "internalName": "$UPPER$1", "operands": [{"kind": "INPUT_REF", "inputIndex": 0}]}
    columns = [{"kind": "INPUT_REF", "inputIndex": at} for at in range(4)]
    output = node_of(plan, before)["outputType"]
    calc = {"id": 1000, "type": "stream-exec-calc_1", "projection": [made, *columns[1:]], "condition": None}
    plan["nodes"].append({**calc, "outputType": output})
    for edge in plan["edges"]:
        if edge["source"] == before and edge["target"] == exchange:
            edge["source"] = 1000
    plan["edges"].append({"source": before, "target": 1000})


@pytest.mark.parametrize(
    ("fill", "edit", "message"),
    [
        ({}, lambda _: None, r"get the column discount, which is DOUBLE NOT NULL.*--fill '32_join\.left\.discount="),
        ({"32_join.discount": "'text'"}, lambda _: None, "^fill: discount is double, and the expression string"),
        ({"32_join.discount": "nothing"}, lambda _: None, "^fill: no column 'nothing'"),
        ({"32_join.discount": "NULL"}, lambda _: None, r"a null, where the type is NOT NULL \(row: key="),
        ({**FILL, "32_join.discount": "1"}, lambda _: None, "is filled twice"),
        ({**FILL, "32_join.left.amount": "1"}, lambda _: None, r"32_join\.left\.amount"),
        ({**FILL, "nowhere.x": "1"}, lambda _: None, r"nowhere\.x"),
        (FILL, _is_changelog, r"Join\[6\] .* finds rows by all of their columns.*true paid.*--empty 6_join"),
        ({**FILL, "65_changelog-normalize.phone": "'-'"}, lambda _: None, r"Rank\[67\] .*true phone.*--empty 67_rank"),
        ({**FILL, "67_rank.phone": "'-'"}, lambda _: None, r"Rank\[67\] .*true phone.*--empty 67_rank"),
        (FILL, _is_computed, r"Rank\[67\] .*true phone.*--empty 67_rank"),
        (FILL, _is_changelog_of_customers, r"Rank\[67\] .*true phone.*--empty 67_rank"),
    ],
)
def test_what_would_be_wrong_is_refused(
    job: Path, tmp_path: Path, fill: dict[str, str], edit: Callable[[Json], object], message: str
) -> None:
    with pytest.raises((InvalidOption, NotFound, SnapshotError), match=f"(?s){message}"):
        evolved(job, fill, edit).write(tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_columns_of_one_type_change_places(job: Path, tmp_path: Path) -> None:
    """Types are as they were, and values are not where they were."""
    names = ("ROW<`customer` BIGINT NOT NULL, `name` VARCHAR(2147483647), `city` VARCHAR(2147483647)>",)
    old: Json = json.loads((job / "old.json").read_text())
    new = copy.deepcopy(old)
    swapped = "ROW<`customer` BIGINT NOT NULL, `city` VARCHAR(2147483647), `name` VARCHAR(2147483647)>"
    assert all(node_of(new, number)["outputType"] in names for number in (59, 60, 61, 62))
    for number in (59, 60, 61, 62):
        node_of(new, number)["outputType"] = swapped
    node_of(new, 62)["partition"]["fields"] = [1]
    node_of(new, 62)["orderBy"]["fields"][0]["index"] = 2
    columns = [{"kind": "INPUT_REF", "inputIndex": at} for at in (0, 2, 1)]
    new["nodes"].append({"id": 1000, "type": "stream-exec-calc_1", "projection": columns, "outputType": swapped})
    (edge,) = [edge for edge in new["edges"] if edge["target"] == 59]
    new["edges"].append({"source": edge["source"], "target": 1000})
    edge["source"] = 1000
    writer = SavepointWriter.from_existing_savepoint(None, str(job / "savepoint"))
    found = stateproc.open(writer.evolve(old, new).write(tmp_path / "target"), plan=new)
    assert "as Rank[62]: columns in another order" in str(writer.plan())
    rows = found.state("60_changelog-normalize", "deduplicate-state").to_arrow().column("value").to_pylist()
    expected = [
        {"customer": 1, "city": "Rome", "name": "Ann"},
        {"customer": 2, "city": "Oslo", "name": "Bob"},
        {"customer": 9, "city": None, "name": "Zoë"},
    ]
    assert sorted(rows, key=lambda row: row["customer"]) == expected
    kept = found.state("62_rank", "data-state").to_arrow().column("value").to_pylist()
    rows = [row for pairs in kept for _, many in pairs for row in many]
    assert sorted(rows, key=lambda row: row["customer"]) == expected


def test_columns_that_are_the_same_stay_where_they_are() -> None:
    """A column that a query returns twice, and one more."""
    assert positions(("a", "b", "a"), ("a", "b", "a", "c")) == (0, 1, 2, None)
    assert positions(("a", "b"), ("a", "a", "b")) == (0, 0, 1)


@pytest.mark.parametrize("written", ["INTERVAL SECOND(3)", "RAW('a.B', 'x')", {"type": "RAW"}, 5, None, {}])
def test_a_new_column_of_a_type_that_is_not_known_is_refused(job: Path, written: Any) -> None:
    def edit(plan: Json) -> None:
        fields = node_of(plan, 73)
        source = next(edge["source"] for edge in plan["edges"] if edge["target"] == fields["id"])
        output = node_of(plan, source)["outputType"]
        output["fields"] = [{**one, "fieldType": written} if one["name"] == "page" else one for one in output["fields"]]

    with pytest.raises(InvalidOption, match=r"(?s)page of Deduplicate\[73\] has a type that is not known.*--empty"):
        evolved(job, FILL, edit)


def test_rows_without_a_unique_key_keep_their_columns(job: Path) -> None:
    """Back to the old query: what has a unique key loses columns, what has none could not be distinguished."""
    old, new = (read_plan(str(job / name)) for name in ("new.json", "old.json"))
    match = matched_plans(old, new, {})
    local, paid = (next(pair for pair in match.pairs if pair.old.id == number) for number in (43, 6))
    left, right = row_conversions(NewQuery(new), local, {})
    assert left is not None and right is not None
    assert (left.dropped, right.dropped) == (["phone"], ["since"])
    assert [column.name for column in right.added] == ["title"] and not left.added
    with pytest.raises(
        InvalidOption, match=r"(?s)without a unique key.*without note several would become one.*--empty"
    ):
        row_conversions(NewQuery(new), paid, {})


def test_rows_in_a_state_that_is_not_known_are_refused(tmp_path: Path) -> None:
    """As another release of Flink may keep the rows before a sink."""
    base = FIXTURES / "2.3/plan-plain"
    plan = json.loads((base / "plan.json").read_text())
    (sink,) = [node for node in plan["nodes"] if node.get("requireUpsertMaterialize")]
    uid = f"{sink['id']}_upsert-materialize"
    writer = SavepointWriter.from_existing_savepoint(None, str(base / "snapshot"))
    writer.rename_state(uid, "values", "others").write(tmp_path / "renamed")
    narrower = json.loads(json.dumps(plan))
    (node,) = [node for node in narrower["nodes"] if node["id"] == sink["id"]]
    node["dynamicTableSink"]["table"]["resolvedTable"]["schema"]["columns"][1]["dataType"] = "INT"
    with pytest.raises(SnapshotError, match=r"(?s)rows of Sink\[\d+\] in a state that is not known.*--empty") as e:
        SavepointWriter.from_existing_savepoint(None, str(tmp_path / "renamed")).evolve(narrower, plan)
    assert "others" in str(e.value)


# Joins find the rows of an input below their key by its unique key.

JOIN = "47_join"


def join_of(type_: str, kind: str = "INNER", lives: str = "0 ms") -> Json:
    """A join by city of customers and of shops, whose key is of a type."""
    plan: Json = json.loads((planned_job("2.3", "plain").path / "plan.json").read_text())
    node = node_of(plan, 47)
    node["joinSpec"]["joinType"] = kind
    for state in node["state"]:
        state["ttl"] = lives
    made: Json = json.loads(json.dumps(with_inputs(plan, node)).replace("`shop` BIGINT NOT NULL", f"`shop` {type_}"))
    return made


def joined(folder: Path, plan: Json, shops: list[Any], associations: bool) -> str:
    left = {"customer": [1, 2], "name": ["Ada", None], "city": ["Rome", None]}
    right = {"shop": shops, "city": ["Rome"] * len(shops)}
    if associations:
        left["associations"], right["associations"] = [len(shops), 0], [1] * len(shops)
    rows = {"left-records": pa.table(left), "right-records": pa.table(right)}
    writer = SavepointWriter.new_savepoint(None).with_flink_version("2.3")
    return writer.with_operator(JOIN, OperatorBootstrap.from_plan(plan, JOIN, rows)).write(folder)


def sides(snapshot: str) -> list[Any]:
    """Types and rows of both states."""
    states = [stateproc.open(snapshot).operator(JOIN).state(f"{side}-records") for side in ("left", "right")]
    tables = [one.to_arrow(flatten=True) for one in states]
    return [
        (str(one.keyed), sorted(map(str, rows.to_pylist())), rows.schema)
        for one, rows in zip(states, tables, strict=True)
    ]


@pytest.mark.parametrize("kind", ["INNER", "FULL"])
@pytest.mark.parametrize(
    ("before", "after", "shops"),
    [
        ("INT NOT NULL", "BIGINT NOT NULL", [-(2**31), 0, 2**31 - 1]),
        ("BIGINT NOT NULL", "BIGINT", [-(2**63)]),
        ("VARCHAR(4)", "VARCHAR(2147483647)", ["", None, "🍵", "\0"]),
        ("DECIMAL(10, 2)", "DECIMAL(30, 4)", [Decimal("-99999999.99"), None]),
    ],
)
def test_unique_keys_of_a_join_become_wider(
    before: str, after: str, shops: list[Any], kind: str, tmp_path: Path
) -> None:
    source = joined(tmp_path / "old", join_of(before, kind), shops, kind == "FULL")
    writer = SavepointWriter.from_existing_savepoint(None, source).evolve(join_of(before, kind), join_of(after, kind))
    assert "keys ROW<f0" in str(writer.plan())
    wanted = sides(joined(tmp_path / "new", join_of(after, kind), shops, kind == "FULL"))
    assert sides(writer.write(tmp_path / "evolved")) == wanted


def test_wider_unique_keys_of_rows_with_partners_and_a_time_to_live(tmp_path: Path) -> None:
    """The join gets another type in the same write, and its rows other key groups."""
    source = joined(tmp_path / "old", join_of("INT NOT NULL"), [1, 2], False)
    writer = SavepointWriter.from_existing_savepoint(None, source)
    writer.evolve(join_of("INT NOT NULL"), join_of("BIGINT NOT NULL", "FULL", "1 d"), emitted="keep")
    target = writer.with_max_parallelism(300).write(tmp_path / "evolved")
    wanted = joined(tmp_path / "new", join_of("BIGINT NOT NULL", "FULL"), [1, 2], True)
    for side in ("left", "right"):
        both = [stateproc.open(one).operator(JOIN).state(f"{side}-records") for one in (target, wanted)]
        assert both[0].ttl and not both[1].ttl
        rows = [one.to_arrow(flatten=True).select(["key", "map_key", "map_value"]).to_pylist() for one in both]
        assert sorted(map(str, rows[0])) == sorted(map(str, rows[1]))
    assert stateproc.open(target).verify().problems == ()


def test_unique_keys_that_would_not_be_found_again_are_refused(tmp_path: Path) -> None:
    source = joined(tmp_path / "old", join_of("FLOAT"), [0.5], False)
    writer = SavepointWriter.from_existing_savepoint(None, source)
    with pytest.raises(InvalidOption, match="finds its state by shop, which was FLOAT and is DOUBLE"):
        writer.evolve(join_of("FLOAT"), join_of("DOUBLE"))
