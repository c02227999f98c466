"""Columns get wider types, in aggregates and in the rows that joins, deduplication and TopN keep; times to live.

`tests/vectors/wider-columns.tar.xz` has a job that Flink 2.3 ran, and the plan of its next version, in which columns of
tables are wider; real Flink restores what is written in tests/integration/flink/test_evolved_types.py.
"""

from __future__ import annotations

import json
import tarfile
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.errors import InvalidOption
from stateproc.query_plans.plan_comparison import comparable, goes_on, is_written_alike
from stateproc.query_plans.plan_file import read_plan
from stateproc.query_plans.plan_lineage import definitions
from stateproc.serializers.table.type_text import parse_sql_type
from tests.helpers.paths import ROOT

READS_EVERY_MODE = False


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wider")
    with tarfile.open(ROOT / "tests/vectors/wider-columns.tar.xz") as archive:
        archive.extractall(folder)
    return folder / "wider-columns"


def evolved(job: Path, old: Any = None, new: Any = None, **more: Any) -> SavepointWriter:
    writer = SavepointWriter.from_existing_savepoint(None, str(job / "savepoint"))
    return writer.evolve(old or str(job / "old.json"), new or str(job / "new.json"), **more)


def edited(path: Path, *changes: tuple[str, str]) -> str:
    text = path.read_text(encoding="utf-8")
    for before, after in changes:
        assert before in text, before
        text = text.replace(before, after)
    return text


def values(job: Path, target: str, plan: str, kind: str, state: str) -> list[Any]:
    """What the states of the nodes of a kind have, by any order."""
    snapshot = stateproc.open(target, plan=plan)
    found = [one for one in snapshot.states if kind in one.operator.display and one.name == state]
    return [row for one in found for row in one.to_arrow().column("value").to_pylist()]


def test_values_stay_what_they_are(job: Path, tmp_path: Path) -> None:
    target = str(evolved(job).write(tmp_path / "target"))
    assert stateproc.open(target).verify().is_intact
    plans = (str(job / "old.json"), str(job / "new.json"))
    for kind, state in (
        ("join", "left-records"), ("join", "right-records"), ("deduplicate", "deduplicate-state"),
        ("rank", "data-state-with-append"), ("normalize", "deduplicate-state"), ("aggregate", "accState"),
    ):  # fmt: skip
        before = values(job, str(job / "savepoint"), plans[0], kind, state)
        after = values(job, target, plans[1], kind, state)
        # 12.50 and 12.5000 are equal, as the types of numbers are no part of them.
        assert sorted(map(_plain, before)) == sorted(map(_plain, after)) and len(before) > 2, (kind, state)


def _plain(value: Any) -> str:
    if isinstance(value, Decimal):
        return str(value.normalize())
    if isinstance(value, dict):
        return str([(name, _plain(one)) for name, one in value.items()])
    if isinstance(value, list | tuple):
        is_map = bool(value) and all(isinstance(one, tuple) for one in value)  # Its entries are in any order.
        return str(sorted(map(_plain, value)) if is_map else [_plain(one) for one in value])
    return repr(value)


def test_types_are_those_of_the_new_plan(job: Path, tmp_path: Path) -> None:
    target = str(evolved(job).write(tmp_path / "target"))
    found = stateproc.open(target, plan=str(job / "new.json"))
    names = [one for one in found.states if one.name == "deduplicate-state" and "wider" in str(one.value_type)]
    (last,) = [one for one in names if "deduplicate" in one.operator.display]
    rows = last.to_arrow().column("value").to_pylist()
    (row,) = [row for row in rows if row["id"] == 4]
    assert row == {
        "id": 4, "customer": None, "tiny": 1, "small": 1, "n": 1, "x": 0.125, "price": Decimal("99999999.99"),
        "precise": Decimal("-99999999.9900"), "code": "mate", "note": "紅茶", "bits": b"\0z",
        "ts": datetime(1, 1, 1), "ltz": datetime(9999, 1, 1, tzinfo=timezone.utc), "must": -1, "wider": 5,
        "proc": None,
    }  # fmt: skip
    assert str(last.value_type).startswith(
        "ROW<id BIGINT, customer BIGINT, tiny SMALLINT, small BIGINT, n BIGINT, x DOUBLE, price DECIMAL(12, 2), "
        "precise DECIMAL(30, 4), code VARCHAR(40), note STRING, bits BYTES, ts TIMESTAMP(6), ltz TIMESTAMP_LTZ(3), "
        "must INT, wider BIGINT"
    )


def test_a_sum_with_too_many_digits_is_refused(job: Path, tmp_path: Path) -> None:
    """DECIMAL(38, 2) as DECIMAL(38, 36), which has two digits before the point."""
    writer = evolved(job, new=edited(job / "new.json", ("DECIMAL(38, 4)", "DECIMAL(38, 36)")))
    with pytest.raises(stateproc.errors.SnapshotError) as caught:
        writer.write(tmp_path / "target")
    assert "accState" in str(caught.value) and not (tmp_path / "target").exists()


def test_a_key_that_is_another_number_in_the_new_type_is_refused(job: Path) -> None:
    """What was 0.1 as FLOAT is another number as DOUBLE."""
    old, new = (
        edited(job / f"{name}.json", ("`customer` BIGINT", f"`customer` {type_}"))
        for name, type_ in (("old", "FLOAT"), ("new", "DOUBLE"))
    )
    with pytest.raises(InvalidOption, match="finds its state by customer, which was FLOAT and is DOUBLE") as caught:
        evolved(job, old=old, new=new)
    assert "--empty" in str(caught.value)


def test_keys_that_are_not_those_of_the_plan_are_refused(job: Path, tmp_path: Path) -> None:
    old = edited(job / "old.json", ("`must` INT NOT NULL", "`must` TINYINT NOT NULL"))
    new = edited(job / "new.json", ("`must` INT", "`must` SMALLINT"))
    with pytest.raises(InvalidOption, match=r"keys are of the type ROW<f0 VARCHAR.*SMALLINT.* does not have all"):
        evolved(job, old=old, new=new).write(tmp_path / "target")
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("max_parallelism", [128, 300])
def test_keys_are_written_in_a_wider_type(job: Path, tmp_path: Path, max_parallelism: int) -> None:
    """Of up to 18 digits a decimal is a number, of more it is bytes: keys move to other key groups."""
    writer = evolved(job, new=edited(job / "new.json", ("DECIMAL(12, 2)", "DECIMAL(22, 2)")))
    target = str(writer.with_max_parallelism(max_parallelism).write(tmp_path / "target"))
    states = [keyed(str(job / "savepoint")), keyed(target)]
    before, after = (
        {str(row["key"]): (row["value"], row["key_group"]) for row in state.to_arrow().to_pylist()} for state in states
    )
    assert "DECIMAL(22, 2)" in str(states[1].key_type)
    assert {key: value for key, (value, _) in before.items()} == {key: value for key, (value, _) in after.items()}
    assert len(after) == 4 and before != after
    assert stateproc.open(target).verify().problems == ()


def test_keys_that_are_written_alike_get_the_types_of_the_new_plan(job: Path, tmp_path: Path) -> None:
    target = str(evolved(job).write(tmp_path / "target"))
    for path, types in (
        (str(job / "savepoint"), ["VARCHAR(4)", "INT NOT NULL", "DECIMAL(10, 2)"]),
        (target, ["VARCHAR(40)", "INT", "DECIMAL(12, 2)"]),
    ):
        snapshot = stateproc.open(path)
        headers = [
            header
            for operator in snapshot.operators
            for file in operator.keyed_files
            if (header := file.header) is not None
            and [type_.sql for type_ in getattr(header.key, "types", ())] == types
        ]
        assert headers, path
        # The timers of an operator have the type of its keys, too.
        queues = [
            info.serializers["VALUE_SERIALIZER"] for info in headers[0].states if info.backend_type == "PRIORITY_QUEUE"
        ]
        assert queues and all([type_.sql for type_ in queue.key.types] == types for queue in queues)
    before, after = (
        {str(row["key"]): row["value"] for row in keyed(path).to_arrow().to_pylist()}
        for path in (str(job / "savepoint"), target)
    )
    assert before == after and len(after) == 4


def keyed(path: str) -> Any:
    """The accumulators of the groups by code, must and price."""
    (found,) = [one for one in stateproc.open(path).states if one.name == "accState" and "DECIMAL" in str(one.key_type)]
    return found


@pytest.mark.parametrize(
    ("before", "after", "alike"),
    [
        ("VARCHAR(4)", "STRING", True),
        ("VARCHAR(4) NOT NULL", "VARCHAR(5)", True),
        ("VARCHAR(5)", "VARCHAR(4)", False),
        ("VARCHAR(4)", "VARCHAR(4) NOT NULL", False),
        ("VARBINARY(1)", "BYTES", True),
        ("INT NOT NULL", "INT", True),
        ("INT", "BIGINT", False),
        ("FLOAT", "DOUBLE", False),
        ("DECIMAL(10, 2)", "DECIMAL(18, 2)", True),
        ("DECIMAL(10, 2)", "DECIMAL(19, 2)", False),
        ("DECIMAL(19, 2)", "DECIMAL(38, 2)", True),
        ("DECIMAL(10, 2)", "DECIMAL(12, 3)", False),
        ("TIMESTAMP(0)", "TIMESTAMP(3)", True),
        ("TIMESTAMP(3)", "TIMESTAMP(4)", False),
        ("TIMESTAMP(4)", "TIMESTAMP(9)", True),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP(3)", False),
        ("DATE", "DATE", True),
        ("CHAR(3)", "CHAR(4)", False),
    ],
)
def test_types_that_are_written_alike(before: str, after: str, alike: bool) -> None:
    assert is_written_alike(parse_sql_type(before), parse_sql_type(after)) is alike


def test_narrower_types_are_refused(job: Path) -> None:
    with pytest.raises(InvalidOption, match="finds its state by code, which was VARCHAR") as caught:
        evolved(job, old=str(job / "new.json"), new=str(job / "old.json"))
    assert "--empty" in str(caught.value)
    narrower = edited(job / "new.json", ("`age` INT", "`age` SMALLINT"))
    with pytest.raises(InvalidOption, match="which does not have all of its values") as caught:
        evolved(job, old=str(job / "new.json"), new=narrower)
    assert "--empty" in str(caught.value)


WIDER = [
    ("TINYINT", "BIGINT"), ("INT NOT NULL", "INT"), ("INT NOT NULL", "BIGINT NOT NULL"), ("FLOAT", "DOUBLE"),
    ("DECIMAL(5, 2)", "DECIMAL(5, 2)"), ("DECIMAL(5, 2)", "DECIMAL(20, 2)"), ("DECIMAL(5, 2)", "DECIMAL(6, 3)"),
    ("VARCHAR(1)", "STRING"), ("VARBINARY(1)", "BYTES"), ("TIMESTAMP(0)", "TIMESTAMP(9)"),
    ("TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(6)"), ("ARRAY<INT>", "ARRAY<INT>"), ("DATE NOT NULL", "DATE"),
]  # fmt: skip
OTHER = [
    ("BIGINT", "INT"), ("INT", "INT NOT NULL"), ("INT", "DOUBLE"), ("INT", "DECIMAL(10, 0)"), ("INT", "STRING"),
    ("DOUBLE", "FLOAT"), ("DECIMAL(5, 2)", "DECIMAL(5, 3)"), ("DECIMAL(5, 2)", "DECIMAL(20, 1)"),
    ("DECIMAL(20, 2)", "DECIMAL(5, 2)"), ("STRING", "VARCHAR(9)"), ("CHAR(2)", "CHAR(3)"), ("CHAR(2)", "STRING"),
    ("BYTES", "VARBINARY(9)"), ("BINARY(1)", "BINARY(2)"), ("TIMESTAMP(6)", "TIMESTAMP(3)"),
    ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)"), ("ARRAY<INT>", "ARRAY<BIGINT>"), ("ROW<a INT>", "ROW<b INT>"),
]  # fmt: skip


@pytest.mark.parametrize("one", [*((pair, True) for pair in WIDER), *((pair, False) for pair in OTHER)], ids=str)
def test_what_goes_on_in_what(one: tuple[tuple[str, str], bool]) -> None:
    (old, new), expected = one
    assert goes_on(parse_sql_type(old), parse_sql_type(new)) is expected


CASTS = [
    # A cast that loses nothing, in both.
    ("$CAST$1", "SMALLINT", ("INT", "BIGINT"), True),
    ("$CAST$1", "VARCHAR(4) NOT NULL", ("VARCHAR(10)", "STRING"), True),
    # What it cut off is lost.
    ("$CAST$1", "STRING", ("VARCHAR(2)", "VARCHAR(4)"), False),
    ("$TRY_CAST$1", "DOUBLE", ("INT", "BIGINT"), False),
    ("$CAST$1", "DECIMAL(10, 4)", ("DECIMAL(10, 2)", "DECIMAL(10, 3)"), False),
    ("$CAST$1", "TIMESTAMP(6)", ("TIMESTAMP(0)", "TIMESTAMP(3)"), False),
    # Other calls; a quotient of decimals is rounded.
    ("$+$1", "SMALLINT", ("SMALLINT", "BIGINT"), True),
    ("$||$1", "STRING", ("VARCHAR(8)", "STRING"), True),
    ("$/$1", "DECIMAL(10, 2)", ("DECIMAL(20, 13)", "DECIMAL(22, 15)"), False),
]


@pytest.mark.parametrize("call", CASTS, ids=str)
def test_casts_that_lose_nothing_are_the_same(call: tuple[str, str, tuple[str, str], bool]) -> None:
    name, operand, results, expected = call
    assert (len({_column(name, operand, result) for result in results}) == 1) is expected


OPERANDS = [
    # Text has as many digits as the type of a time or a decimal.
    ("$CAST$1", ("TIMESTAMP(3)", "TIMESTAMP(6)"), "STRING", False),
    ("$CAST$1", ("DECIMAL(10, 2)", "DECIMAL(10, 4)"), "STRING", False),
    ("$DATE_FORMAT$1", ("TIMESTAMP(3)", "TIMESTAMP(6)"), "STRING", False),
    ("$UPPER$1", ("VARCHAR(3)", "VARCHAR(6)"), "STRING", True),
    ("$+$1", ("INT", "BIGINT"), "BIGINT", True),
    (">", ("DECIMAL(10, 2)", "DECIMAL(12, 2)"), "BOOLEAN", True),
]


@pytest.mark.parametrize("call", OPERANDS, ids=str)
def test_calls_over_wider_columns(call: tuple[str, tuple[str, str], str, bool]) -> None:
    name, operands, result, expected = call
    assert (len({_column(name, operand, result) for operand in operands}) == 1) is expected


def _column(name: str, operand: str, result: str) -> str:
    """What a call over a table's column is, whatever the width of types."""
    row = f"ROW<`a` {operand}>"
    scan = {
        "id": 1, "type": "stream-exec-table-source-scan_2", "outputType": row,
        "scanTableSource": {"table": {"identifier": "`c`.`d`.`t`"}},
    }  # fmt: skip
    operand_ = {"kind": "INPUT_REF", "inputIndex": 0, "type": operand}
    projection = {"kind": "CALL", "internalName": name, "operands": [operand_], "type": result}
    calc = {"id": 2, "type": "stream-exec-calc_1", "outputType": f"ROW<`b` {result}>", "projection": [projection]}
    edges = [{"source": 1, "target": 2}]
    plan = read_plan(json.dumps({"flinkVersion": "2.3", "nodes": [scan, calc], "edges": edges}))
    return definitions(comparable(plan, types=True))[2].columns[0]


# State that gets or loses a time to live.


def timed(path: Path, ttl: str, only: str = "") -> dict[str, Any]:
    """A plan whose states have a time to live; `only`: those of this name."""
    plan: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for node in plan["nodes"]:
        for state in node.get("state", []):
            if not only or state["name"] == only:
                state["ttl"] = ttl
    return plan


def times(path: str) -> dict[tuple[str, str], bool]:
    found = stateproc.open(path).states
    return {(one.operator.operator_id, one.name): bool(one.ttl) for one in found if one.is_keyed and not one.is_timers}


@pytest.mark.parametrize("new", ["old.json", "new.json"])
def test_state_gets_a_time_to_live_and_loses_it(job: Path, tmp_path: Path, new: str) -> None:
    on = timed(job / new, "1 d")
    writer = evolved(job, new=on)
    assert str(writer.plan()).count("a time to live from now on") == 14
    target = str(writer.write(tmp_path / "on"))
    assert set(times(target).values()) == {True}
    # Without it, what has expired by the old one is gone, and all else as it was.
    for ttl, is_there in (("1 d", True), ("36500 d", True), ("1 ms", False)):
        back = SavepointWriter.from_existing_savepoint(None, target)
        back.evolve(timed(job / new, ttl), str(job / new))
        assert "no time to live any more" in str(back.plan())
        plain = str(back.write(tmp_path / f"off {ttl}"))
        assert set(times(plain).values()) == {False}
        for kind, state in (("join", "left-records"), ("rank", "data-state-with-append"), ("aggregate", "accState")):
            before = values(job, str(job / "savepoint"), str(job / "old.json"), kind, state)
            after = values(job, plain, str(job / new), kind, state)
            assert sorted(map(_plain, after)) == (sorted(map(_plain, before)) if is_there else []), (ttl, kind)


def test_only_one_side_of_a_join_gets_a_time_to_live(job: Path, tmp_path: Path) -> None:
    writer = evolved(job, new=timed(job / "old.json", "3 h", only="rightState"))
    assert str(writer.plan()).count("right: a time to live from now on") == 4
    found = times(str(writer.write(tmp_path / "target")))
    assert {name for (_, name), on in found.items() if on} == {"right-records"}
    assert sum(found.values()) == 4


def test_a_longer_time_to_live_changes_nothing(job: Path, tmp_path: Path) -> None:
    target = str(evolved(job, new=timed(job / "old.json", "1 h")).write(tmp_path / "on"))
    writer = SavepointWriter.from_existing_savepoint(None, target)
    writer.evolve(timed(job / "old.json", "1 h"), timed(job / "old.json", "2 h"))
    assert "time to live" not in str(writer.plan()) and "converted" not in str(writer.plan())


def test_a_plan_of_flink_1_16_goes_on_with_one_of_2_3(tmp_path: Path) -> None:
    """`tests/vectors/older-plan.tar.xz`: the same queries, run by Flink 1.16 and planned anew by 2.3.

    Flink 1.16 has a source for each query that reads a table, Flink 2.3 one for all: the user says which it is.
    """
    with tarfile.open(ROOT / "tests/vectors/older-plan.tar.xz") as archive:
        archive.extractall(tmp_path)
    old = tmp_path / "older-plan"
    empty = ["52_deduplicate", "59_deduplicate"]  # The planner of Flink 2 says more about them.
    with pytest.raises(InvalidOption, match="orders` become one, 1_source: 1_source, 6_source"):
        evolved(old, empty=empty)
    writer = evolved(old, empty=empty, mapped={"1_source": "1_source", "18_source": "16_source"})
    target = str(writer.with_flink_version("2.3").write(tmp_path / "target"))
    assert stateproc.open(target).verify().is_intact
    for kind, state in (("join", "left-records"), ("normalize", "deduplicate-state"), ("aggregate", "accState")):
        before = values(old, str(old / "savepoint"), str(old / "old.json"), kind, state)
        after = values(old, target, str(old / "new.json"), kind, state)
        assert sorted(map(_plain, before)) == sorted(map(_plain, after)) and len(before) > 2, (kind, state)
