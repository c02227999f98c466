"""Rows of OVER that wait for the watermark get timers of their own, as Flink 2 has them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import stateproc
from stateproc import SavepointWriter
from tests.helpers.fixtures import FIXTURES

READS_EVERY_MODE = False
BASE = FIXTURES / "1.20/plan-plain"
Json = dict[str, Any]


def of_flink_2() -> tuple[Json, Json]:
    """The plan of the job, and the same with the operator of Flink 2 for frames that begin with the first row."""
    plan = json.loads((BASE / "plan.json").read_text())
    made = copy.deepcopy(plan)
    for node in made["nodes"]:
        if node["type"].startswith("stream-exec-over-aggregate"):
            node["unboundedOverVersion"] = 2
    return plan, made


def frames(plan: Json, kind: str) -> set[str]:
    """The uids of the operators of OVER whose frame has a lower bound of a kind."""
    nodes = [node for node in plan["nodes"] if node["type"].startswith("stream-exec-over-aggregate")]
    return {
        f"{node['id']}_over-aggregate" for node in nodes if node["overSpec"]["groups"][0]["lowerBound"]["kind"] == kind
    }


def waiting(path: Path, uid: str) -> set[tuple[str, int]]:
    """The keys and times of the rows that wait."""
    rows = stateproc.open(path)[uid]["inputState"].to_arrow(flatten=True).to_pylist()
    return {(str(row["key"]), row["map_key"]) for row in rows}


def timers(path: Path, uid: str) -> set[tuple[str, int]]:
    rows = stateproc.open(path).state(uid, "event timers").to_arrow().to_pylist()
    return {(str(row["key"]), row["timestamp"]) for row in rows}


def test_each_row_that_waits_has_a_timer(tmp_path: Path) -> None:
    source, target = BASE / "snapshot", tmp_path / "target"
    old, new = of_flink_2()
    writer = SavepointWriter.from_existing_savepoint(None, str(source)).evolve(old, new)
    plan = str(writer.plan())
    writer.write(target)
    with_rows = 0
    for uid in frames(old, "UNBOUNDED_PRECEDING"):
        if "inputState" not in [state.name for state in stateproc.open(source)[uid].states]:
            continue  # In the order of processing time.
        assert timers(target, uid) == waiting(source, uid) == waiting(target, uid), uid
        with_rows += bool(waiting(source, uid))
    assert with_rows > 1 and plan.count("timers at the times of its rows") >= with_rows
    others = frames(old, "BOUNDED_WINDOW")
    assert others and all(timers(target, uid) == timers(source, uid) for uid in others)
