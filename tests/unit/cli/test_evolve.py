"""`stateproc evolve`: what it says, and what it writes."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

import stateproc
from stateproc.cli import main
from tests.helpers.paths import ROOT


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A savepoint of a job, its plan, and that of its next version."""
    with tarfile.open(ROOT / "tests/vectors/changed-query.tar.xz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path)
    return tmp_path / "changed-query"


def evolve(job: Path, *more: str) -> int:
    plans = ["--from-plan", str(job / "old.json"), "--to-plan", str(job / "new.json")]
    return main(["evolve", str(job / "savepoint"), str(job / "next"), *plans, *more])


def test_what_becomes_of_each_node(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = ["--empty", "18_group-aggregate"]
    assert evolve(job, *empty, "--map", "13_group-aggregate=31_group-aggregate", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    notes = [note for note in report["notes"] if note.startswith(("kept", "dropped", "starts", "new"))]
    assert [note for note in notes if "Aggregate" in note or "Rank" in note] == [
        "kept: GroupAggregate[13] as GroupAggregate[31]",
        "kept: GroupAggregate[4] as GroupAggregate[22]",
        "kept: Rank[8] as Rank[26]",
        "starts empty: GroupAggregate[18] (18_group-aggregate), its results begin with the restore",
    ]
    target = stateproc.open(job / "next", plan=job / "new.json")
    assert "18_group-aggregate" not in [operator.uid for operator in target.operators]
    # Without plans, the fields of rows have no names.
    source, target = (stateproc.open(job / name) for name in ("savepoint", "next"))
    for before, after, state in (
        ("4_group-aggregate", "22_group-aggregate", "accState"),
        ("13_group-aggregate", "31_group-aggregate", "accState"),
        ("8_rank", "26_rank", "data-state-with-append"),
    ):
        one, two = source.state(before, state).to_arrow(), target.state(after, state).to_arrow()
        assert one.num_rows and one.equals(two)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "18_group-aggregate (GroupAggregate[18]), 31_group-aggregate (GroupAggregate[31])"),
        (["--empty", "18_group-aggregate"], "would begin without state: 31_group-aggregate (GroupAggregate[31])"),
        (["--empty", "99_group-aggregate"], "the new plan has no operator 99_group-aggregate that holds state"),
        (["--map", "13_group-aggregate=18_group-aggregate"], "compute something else, or of other columns"),
        (["--map", "1_nothing=31_group-aggregate"], "no operator in the plan with uid '1_nothing'"),
        (["--map", "13_group-aggregate"], "OLD=NEW"),
    ],
)
def test_what_is_refused(job: Path, more: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert evolve(job, *more) == 2
    assert message in capsys.readouterr().err
    assert not (job / "next").exists()
