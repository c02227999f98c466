"""A write plans once: what it reads of the source is what one plan reads, and what is copied or rewritten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.cli import main
from stateproc.writers import savepoint_writer
from stateproc.writers.plan.planning import WritePlan
from tests.helpers.paths import DEMO
from tests.helpers.stores.counting_filesystem import Count, counted, counting
from tests.helpers.writers.made_plans import noted_plans

UID, SOURCE = "orders-per-customer", "orders-from-kafka"
Requests = Counter[tuple[str, int]]


def requests(count: Count) -> Requests:
    """The requests of state files by name and bytes; a job reads ``_metadata`` for its fingerprint as well."""
    return Counter(item for item in count.requests if item[0] != "_metadata")


def writer() -> SavepointWriter:
    options = {"uids": [UID, SOURCE]}
    return SavepointWriter.from_existing_savepoint(None, counted(Path(DEMO)), options).with_storage_options({})


def copied(changed: SavepointWriter) -> SavepointWriter:
    return changed


def renamed(changed: SavepointWriter) -> SavepointWriter:
    return changed.change_operator_identifier(UID, "other")


def rewritten(changed: SavepointWriter) -> SavepointWriter:
    return changed.with_max_parallelism(256)


def new_offsets(changed: SavepointWriter) -> SavepointWriter:
    return changed.set_kafka_offsets(SOURCE, everywhere="earliest")


def new_rows(changed: SavepointWriter) -> SavepointWriter:
    rows = pa.table({"key": [1, 2], "value": [1.0, 2.0]})
    return changed.with_states(UID, lambda op: op.value_state("extra", rows))


CHANGES = [copied, renamed, rewritten, new_offsets, new_rows]


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[WritePlan]:
    return noted_plans(monkeypatch)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_write_reads_what_one_plan_and_its_execution_read(
    tmp_path: Path, plans: list[WritePlan], change: Callable[[SavepointWriter], SavepointWriter]
) -> None:
    with counting() as whole:
        result = change(writer()).write(tmp_path / "whole")
    assert len(plans) == 1 and whole.times("_metadata") == 1
    with counting() as planning:
        changed = change(writer())
        plan = changed.planned_write(tmp_path / "steps")
    with counting() as executing:
        again = changed.execute(plan)
    assert requests(whole) == requests(planning) + requests(executing)
    assert executing.times("_metadata") == 0
    before, after = ({**it.report.to_dict(), "target": "", "seconds": {}} for it in (result, again))
    assert before == after


@pytest.mark.parametrize("change", [copied, renamed], ids=lambda change: change.__name__)
def test_the_execution_of_a_copy_reads_each_file_once(
    tmp_path: Path, change: Callable[[SavepointWriter], SavepointWriter]
) -> None:
    changed = change(writer())
    plan = changed.planned_write(tmp_path / "target")
    with counting() as executing:
        changed.execute(plan)
    stored = {path.name: path.stat().st_size for path in Path(DEMO).iterdir() if path.name != "_metadata"}
    assert requests(executing) == Counter(stored.items())


def test_the_report_does_not_need_the_source_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = writer()
    execute = savepoint_writer.execute

    def unreadable(*_: object) -> None:
        raise AssertionError("the source is read for the report")

    def executed(*arguments: Any) -> Any:
        written = execute(*arguments)
        monkeypatch.setattr("tests.helpers.stores.counting_filesystem.CountedFileSystem.cat_file", unreadable)
        return written

    monkeypatch.setattr(savepoint_writer, "execute", executed)
    report = changed.write(tmp_path / "target").report
    assert all(operator.states for operator in report.operators)


@pytest.mark.parametrize("flags", [(), ("--plan",)], ids=["write", "plan"])
def test_the_command_line_plans_once(tmp_path: Path, plans: list[WritePlan], flags: tuple[str, ...]) -> None:
    line = ("rescale", counted(Path(DEMO)), str(tmp_path / "line"), "--max-parallelism", "256", *flags)
    with counting() as count:
        assert main(line) == 0
    assert len(plans) == 1
    with counting() as expected:
        changed = rewritten(writer())
        plan = changed.planned_write(tmp_path / "steps")
        if not flags:
            changed.execute(plan)
    assert requests(count) == requests(expected) and count.times("_metadata") == 1


@pytest.mark.parametrize("only_plan", [False, True], ids=["write", "plan"])
def test_a_job_plans_once(tmp_path: Path, plans: list[WritePlan], only_plan: bool) -> None:
    job = {
        "job": "rename",
        "base": {"path": counted(Path(DEMO)), "open": {"uids": [UID]}},
        "changes": [{"rename-operator": {"uid": UID, "to": "other"}}],
        "target": {"path": f"{tmp_path}/job"},
    }
    with counting() as count:
        report = stateproc.run_job(job, plan=only_plan)
    assert report.status == ("planned" if only_plan else "written") and len(plans) == 1
    with counting() as expected:
        changed = renamed(writer())
        plan = changed.planned_write(tmp_path / "steps")
        if not only_plan:
            changed.execute(plan)
    assert requests(count) == requests(expected)
