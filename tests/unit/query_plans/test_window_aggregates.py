"""Accumulators of windows become those of other calls, as the plans say: per group and window, or slice of windows."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.errors import InvalidOption
from tests.helpers.fixtures import FIXTURES
from tests.helpers.plan_parts import with_inputs
from tests.helpers.planned_states import planned_job

READS_EVERY_MODE = False
STATE = "window-aggs"
Json = dict[str, Any]
COUNT = {"name": "m", "internalName": "$COUNT$1", "argList": [], "filterArg": -1, "distinct": False,
         "approximate": False, "ignoreNulls": False, "type": "BIGINT NOT NULL"}  # fmt: skip
WINDOWS = {
    "HoppingWindow": ("plain", "window-aggregate"),
    "CumulativeWindow": ("plain", "window-aggregate"),
    "SessionWindow": ("plain", "window-aggregate"),
    "TumblingWindow": ("mini-batch", "global-window-aggregate"),
}
"""Of these there is one aggregate without DISTINCT, in a plan, in one or in two phases."""


class Job:
    """A recorded job, and a plan in which one aggregate of windows is another."""

    def __init__(self, release: str, window: str) -> None:
        case, kind = WINDOWS[window]
        self._home = FIXTURES / release / f"plan-{case}"
        self.old: Json = json.loads((self._home / "plan.json").read_text())
        self.new: Json = copy.deepcopy(self.old)
        self.nodes = [node for node in self.new["nodes"] if self._is(node, window)]
        (self.number,) = [node["id"] for node in self.nodes if "local" not in node["type"]]
        self.uid = f"{self.number}_{kind}"

    @staticmethod
    def _is(node: Json, window: str) -> bool:
        aggregates = (
            node["type"].removeprefix("stream-exec-").startswith(("window-agg", "global-window", "local-window"))
        )
        return aggregates and node["windowing"]["window"]["type"] == window

    def change(self, edit: Callable[[Json], None]) -> None:
        """Change the aggregate; in two phases both."""
        for node in self.nodes:
            edit(node)

    def evolved(self, target: Path, **options: Any) -> Path:
        """Write the savepoint of the new plan."""
        writer = SavepointWriter.from_existing_savepoint(None, str(self._home / "snapshot"))
        writer.evolve(self.old, self.new, **options).write(str(target))
        return target

    def rows(self, path: Path | None = None) -> list[Json]:
        """The accumulators."""
        plan = self.old if path is None else self.new
        opened = stateproc.open(str(path or self._home / "snapshot"), plan=plan)
        return sorted(
            opened[self.uid][STATE].to_arrow().to_pylist(),
            key=lambda row: (row["key_group"], str(row["key"]), str(row["namespace"])),
        )


def calls(*edited: Json | int) -> Callable[[Json], None]:
    """Return what gives a node these calls; a number is one that it has."""

    def edit(node: Json) -> None:
        own = node["aggCalls"]
        node["aggCalls"] = [own[one] if isinstance(one, int) else one for one in edited]

    return edit


@pytest.mark.parametrize("release", ["1.20", "2.3"])
def test_the_rows_that_flink_counts_are_those_of_a_count(release: str, tmp_path: Path) -> None:
    job = Job(release, "HoppingWindow")
    job.change(calls(COUNT, 0))
    found, before = job.rows(job.evolved(tmp_path / "evolved")), job.rows()
    assert len(found) > 1 and all(row["value"]["row_count"] > 0 for row in before)
    assert [row["value"] for row in found] == [
        {"m": row["value"]["row_count"], "largest": row["value"]["largest"]} for row in before
    ]
    assert [{**row, "value": None} for row in found] == [{**row, "value": None} for row in before]


@pytest.mark.parametrize("release", ["1.20", "2.3"])
def test_calls_of_sessions_change_their_order(release: str, tmp_path: Path) -> None:
    job = Job(release, "SessionWindow")
    job.change(calls(1, 0))
    found, before = job.rows(job.evolved(tmp_path / "evolved")), job.rows()
    assert found and found == before and [*found[0]["value"]] == [*reversed(before[0]["value"])]


@pytest.mark.parametrize("window", ["CumulativeWindow", "TumblingWindow"])
@pytest.mark.parametrize("release", ["1.20", "2.3"])
def test_a_call_begins_beside_others(release: str, window: str, tmp_path: Path) -> None:
    job = Job(release, window)
    job.change(calls(COUNT, 0))
    with pytest.raises(InvalidOption, match=r"calls that the old query did not compute: COUNT\(\*\) of"):
        job.evolved(tmp_path / "refused")
    found = job.rows(job.evolved(tmp_path / "evolved", new_aggregates="empty"))
    assert found and [row["value"] for row in found] == [{"m": 0, **row["value"]} for row in job.rows()]


def _longer(node: Json) -> None:
    window = node["windowing"]["window"]
    name = "gap" if "gap" in window else "maxSize" if "maxSize" in window else "size"
    window[name] = "PT24H"


def _other_time(node: Json) -> None:
    if "timeAttributeIndex" in node["windowing"]:
        node["windowing"]["timeAttributeIndex"] -= 1


def _no_key(node: Json) -> None:
    node["grouping"] = []


@pytest.mark.parametrize("edit", [_longer, _other_time, _no_key])
@pytest.mark.parametrize("window", WINDOWS)
def test_other_windows_begin(window: str, edit: Callable[[Json], None], tmp_path: Path) -> None:
    job = Job("2.3", window)
    job.change(edit)
    with pytest.raises(InvalidOption, match=f"would begin without state: {job.uid}"):
        job.evolved(tmp_path / "refused")


def test_a_window_of_the_same_calls_stays_as_it_is(tmp_path: Path) -> None:
    job = Job("2.3", "HoppingWindow")
    writer = SavepointWriter.from_existing_savepoint(None, str(FIXTURES / "2.3" / "plan-plain" / "snapshot"))
    # The count is the last of the accumulators, whether the query has it or Flink adds it.
    job.change(calls(0, COUNT))
    plan = str(writer.evolve(job.old, job.new).plan())
    assert f"kept: WindowAggregate[{job.number}] as WindowAggregate[{job.number}]" in plan


# GROUP BY TUMBLE(…), as queries had windows before there were table functions of them.
GROUP_WINDOWS = {"TUMBLING": 212, "SESSION": 215}
PLANNED = planned_job("2.3", "plain").path


class GroupWindows:
    """A window of GROUP BY and what it reads, and the same as another one; its snapshot."""

    def __init__(self, window: str, *edits: Callable[[Json], None], source: Path = PLANNED / "snapshot") -> None:
        self.source, self.number = source, GROUP_WINDOWS[window]
        plan = json.loads((PLANNED / "plan.json").read_text())
        (node,) = [node for node in plan["nodes"] if node["id"] == self.number]
        self.old: Json = with_inputs(plan, node)
        self.new = copy.deepcopy(self.old)
        self.uid = f"{self.number}_group-window-aggregate"
        for edit in edits:
            edit(next(one for one in self.new["nodes"] if one["id"] == self.number))

    def evolved(self, **options: Any) -> SavepointWriter:
        """A writer of the savepoint of the new plan."""
        return SavepointWriter.from_existing_savepoint(None, str(self.source)).evolve(self.old, self.new, **options)

    def rows(self, path: Path | None = None) -> list[Json]:
        """The accumulators of all windows."""
        opened = stateproc.open(str(path or self.source), plan=self.old if path is None else self.new)
        rows = opened[self.uid][STATE].to_arrow().to_pylist()
        return sorted(rows, key=lambda row: (row["key_group"], str(row["key"]), str(row["namespace"])))


def other_calls(node: Json) -> None:
    """The largest amount, which no state has; the number of rows, which one has; and the sum."""
    total = node["aggCalls"][0]
    node["aggCalls"] = [{**total, "name": "largest", "internalName": "$MAX$1"}, COUNT, total]


@pytest.mark.parametrize("window", GROUP_WINDOWS)
def test_windows_of_group_by_get_other_calls(window: str, tmp_path: Path) -> None:
    job = GroupWindows(window, other_calls)
    writer = job.evolved(new_aggregates="empty")
    begun = ["MAX(amount)", *(["COUNT(*)"] * (window == "SESSION"))]
    plan = str(writer.plan())
    assert all((f"{call} from now on" in plan) == (call in begun) for call in ("MAX(amount)", "COUNT(*)")), plan
    writer.write(str(tmp_path / "new"))
    before, found = job.rows(), job.rows(tmp_path / "new")
    assert len(found) > 1
    for one, two in zip(before, found, strict=True):
        assert one["namespace"] == two["namespace"] and one["key"] == two["key"]
        assert two["value"] == {"largest": None, "m": one["value"].get("n", 0), "total": one["value"]["total"]}
    # Timers and the windows of sessions stay.
    both = [stateproc.open(str(path))[job.uid] for path in (job.source, tmp_path / "new")]
    for name in ("event timers", *(["session-window-mapping"] * (window == "SESSION"))):
        assert both[0][name].to_arrow().equals(both[1][name].to_arrow()), name


def _longer_window(node: Json) -> None:
    (size,) = {"size", "gap"} & node["window"].keys()
    node["window"][size] = "PT2H"


def _by_another_column(node: Json) -> None:
    node["window"]["timeField"]["fieldIndex"] = 2


@pytest.mark.parametrize("edit", [_longer_window, _by_another_column])
@pytest.mark.parametrize("window", GROUP_WINDOWS)
def test_other_windows_of_group_by_begin(window: str, edit: Callable[[Json], None]) -> None:
    with pytest.raises(InvalidOption, match="would begin without state"):
        GroupWindows(window, edit, other_calls).evolved(new_aggregates="empty")


@pytest.mark.parametrize("field", [None, {"fieldIndex": 9}, {"fieldIndex": "1"}, {"fieldIndex": -1}, 3])
def test_a_window_of_group_by_without_its_time_is_no_plan(field: Any) -> None:
    job = GroupWindows("TUMBLING", lambda node: node["window"].update(timeField=field))
    with pytest.raises(InvalidOption, match="plan"):
        job.evolved()


def test_results_that_were_emitted_early_have_the_old_columns(tmp_path: Path) -> None:
    """What `table.exec.emit.early-fire` emits is kept, to be taken back."""
    first = GroupWindows("TUMBLING", other_calls)
    key = pa.array([{"f0": "tea"}], pa.struct([("f0", pa.string())]))
    early = pa.table({"key": key, "value": [1.0]})
    writer = SavepointWriter.from_existing_savepoint(None, str(first.source))
    writer.with_states(first.uid, lambda state: state.value_state("previous-aggs", early)).write(str(tmp_path / "old"))
    with pytest.raises(InvalidOption, match="emits results of windows before their end") as e:
        GroupWindows("TUMBLING", other_calls, source=tmp_path / "old").evolved(new_aggregates="empty")
    assert first.uid in str(e.value) and "--empty" in str(e.value)
    GroupWindows("TUMBLING", source=tmp_path / "old").evolved().write(str(tmp_path / "same"))
