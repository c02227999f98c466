"""The names of a plan in descriptions, look-ups, timers and on the command line."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from stateproc.cli import main
from tests.helpers.planned_states import planned_job

JOB = planned_job("1.20", "plain")
KEY = {"customer": 10, "product": "tea"}
PLAN = ["--plan", str(JOB.path / "plan.json")]


def test_descriptions() -> None:
    key, value = JOB.operator("group").state("accState").describe().types
    assert [field.name for field in key.fields] == ["customer", "product"]
    assert [field.name for field in value.fields][:3] == ["n", "total", "largest"]
    assert key.serializer is not None and key.serializer.endswith("RowDataSerializerSnapshot")
    view = value.fields[-1]
    assert view.name == "distinct_id" and "a view of another state" in " ".join(view.changes)


def test_a_pair_is_described_by_its_names() -> None:
    _, _, value = JOB.operator("join_unique").state("left-records").describe().types
    assert [field.name for field in value.fields] == ["count", "associations"]


def test_keys_are_looked_up_by_the_names_of_the_query() -> None:
    state = JOB.operator("group").state("accState")
    assert state.get(KEY)["total"] == 4.0


def test_timers_have_the_names_of_keys_and_windows() -> None:
    timers = JOB.operator("tumble").timers("event").to_arrow().to_pylist()
    assert {row["key"]["product"] for row in timers} == {"tea", "mate"}
    assert {row["namespace"]["window_end"] for row in timers} == {datetime(2024, 1, 1, 0, 3)}


def test_conditions_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--where", "key.customer = 10 AND value.total > 4", "--columns", "key"]
    read = ["read", str(JOB.path / "snapshot"), *PLAN, "--uid", "6_group-aggregate", "--state", "accState", *where]
    assert main(read) == 0
    assert json.loads(capsys.readouterr().out) == {"key": {"customer": 10, "product": "mate"}}
