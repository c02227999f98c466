"""Which operators keep their max parallelism, and what plans say that a job needs."""

from __future__ import annotations

from pathlib import Path

import stateproc
from stateproc import SavepointWriter
from stateproc.writers.plan.savepoint_plan import SavepointPlan
from tests.helpers.cases import case_snapshots

READS_EVERY_MODE = False
SNAPSHOTS = {f"{one.case}/{one.entry['path']}": one for one in case_snapshots()}


def writer_of(name: str) -> SavepointWriter:
    one = SNAPSHOTS[name]
    return SavepointWriter.from_existing_savepoint(None, one.path, {"uids": ",".join(one.uids)})


def numbers(plan: SavepointPlan) -> dict[str | None, tuple[int | None, int | None]]:
    return {item.uid: (item.parallelism, item.max_parallelism) for item in plan.operators}


def test_an_operator_that_is_not_parallel_keeps_max_parallelism_1(tmp_path: Path) -> None:
    writer = writer_of("max-parallelism-1/snapshot").with_max_parallelism(256)
    plan = writer.plan()
    assert numbers(plan) == {"src": (2, 256), "a": (2, 256), "all": (1, 1), "k": (1, 256)}
    assert plan.notes[0] == (
        "the job's max parallelism has to be 256, or not set: Flink restores no other than the savepoint's"
    )
    assert plan.notes[1] == (
        "all keeps its max parallelism 1: Flink fixes the max parallelism of operators that are not parallel at 1"
    )
    kept = next(item for item in plan.operators if item.uid == "all")
    assert kept.reasons == ("max parallelism stays 1",)
    writer.write(tmp_path / "out")
    written = stateproc.open(tmp_path / "out", uids=["src", "a", "all", "k"])
    assert {item.uid: (item.parallelism, item.max_parallelism) for item in written.operators} == numbers(plan)


def test_an_operator_that_is_named_gets_its_number() -> None:
    writer = writer_of("max-parallelism-1/snapshot").with_max_parallelism(256).with_max_parallelism(8, "all")
    assert numbers(writer.plan())["all"] == (1, 8)


def test_jobs_of_max_parallelism_1_get_another() -> None:
    writer = writer_of("max-parallelism-1/snapshot")
    for uid in ("src", "a", "k"):
        writer.remove_operator(uid)
    assert numbers(writer.with_max_parallelism(256).plan())["all"] == (1, 256)


def test_list_state_of_more_subtasks_keeps_its_max_parallelism() -> None:
    writer = writer_of("list-state-above-max-parallelism/snapshot").with_max_parallelism(4)
    plan = writer.plan()
    assert numbers(plan) == {"src": (2, 4), "a": (2, 4), "b": (8, 128), "k": (2, 4)}
    text = "\n".join(plan.notes)
    assert "b keeps its max parallelism 128: it has 8 subtasks and no keyed state" in text
    assert "max parallelism has to be 4, or not set" not in text and "setMaxParallelism(4)" in text
    with_fewer = writer.with_parallelism("b", 4).plan()
    assert numbers(with_fewer)["b"] == (4, 4)
    assert with_fewer.notes[0].startswith("the job's max parallelism has to be 4, or not set")


def test_keyed_state_of_more_subtasks_says_which_parallelism_fits() -> None:
    plan = writer_of("list-state-above-max-parallelism/snapshot").with_max_parallelism(1).plan()
    assert numbers(plan)["a"] == (1, 1)
    assert "a ran with parallelism 2: in the job it has to be 1 or less, the new max parallelism" in plan.notes


def test_operators_of_a_chain_are_warned_of_different_numbers() -> None:
    writer = writer_of("chained-max-parallelism/two-keyed").with_max_parallelism(256, "a")
    notes = writer.plan().notes
    assert notes[0].startswith("the job has to set max parallelism 256 for 'a' alone (setMaxParallelism(256) of the ")
    assert notes[1].startswith("every operator that is chained with 'a' needs max parallelism 256 as well;")
    assert all(f"'{uid}'" in notes[1] for uid in ("b", "c", "src", "k"))
    whole = writer_of("chained-max-parallelism/two-keyed").with_max_parallelism(256).plan().notes
    assert whole[0].startswith("the job's max parallelism has to be 256, or not set")
    assert not any("chained" in note for note in whole)
