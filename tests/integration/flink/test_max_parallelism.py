"""What real Flink does with operators whose max parallelism is another than the job's, and what `check` says of it.

The job is that of tests/cases/chained-max-parallelism: `a` and `c` have keyed state, `b` list state, `k` none. They are
on one vertex, or each on its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.compatibility.verdicts import Verdict
from tests.helpers.cases import CaseSnapshot, case_snapshots
from tests.helpers.flink.case_jobs import Line, found_by_runs, job_path, reporting

pytestmark = pytest.mark.flink

CASE = "chained-max-parallelism"
MISMATCH = "Max parallelism mismatch between checkpoint/savepoint state and new program. Cannot map operator"
TOO_MANY = "can not be restored. The maximum parallelism (2) of the restored state is lower than the configured"
ANYTHING = "Could not restore keyed state backend"


@dataclass(frozen=True)
class Restore:
    """A restore.

    Attributes:
        numbers: The operators with another max parallelism than 128.
        thrown: What Flink throws; None if the job has the right values.
        job: The max parallelism that the job sets, 0 for none.
        chained: Whether all operators are on one vertex.
        subtasks: The parallelism of the job.
        snapshot: Which one: `snapshot` does not have `c`.
    """

    numbers: Mapping[str, int] = field(hash=False)
    thrown: str | None
    job: int = 0
    chained: bool = False
    subtasks: int = 2
    snapshot: str = "two-keyed"


RESTORES = {
    "as they are": Restore({}, None, chained=True),
    "the job sets another": Restore({}, MISMATCH, job=256),
    "another of a source": Restore({"src": 256}, MISMATCH, job=128),
    "another of list state": Restore({"b": 256}, MISMATCH, job=128, snapshot="snapshot"),
    "another without state": Restore({"k": 256}, MISMATCH, job=128),
    "too few for list state": Restore({"b": 2}, TOO_MANY, subtasks=3, snapshot="snapshot"),
    "too few without state": Restore({"k": 2}, None, subtasks=3, snapshot="snapshot"),
    "two keyed on one vertex": Restore({"a": 256}, ANYTHING, chained=True),
    "the other on one vertex": Restore({"c": 256}, ANYTHING, chained=True),
}


def source(name: str) -> CaseSnapshot:
    return next(one for one in case_snapshots() if one.case == CASE and one.entry["path"] == name)


def rewritten(restore: Restore, release: str, target: Path) -> str:
    one = source(restore.snapshot)
    writer = SavepointWriter.from_existing_savepoint(None, one.path, {"uids": ",".join(uids_of(restore))})
    writer = writer.with_flink_version(release)
    for uid, number in restore.numbers.items():
        writer = writer.with_max_parallelism(number, uid)
    return str(writer.write(target))


def uids_of(restore: Restore) -> list[str]:
    return [uid for uid in ("src", "a", "b", "c", "k") if uid != "c" or restore.snapshot != "snapshot"]


def is_right(lines: list[Line]) -> bool:
    counts = [line for line in lines if line["state"] == "count"]
    return len(counts) >= 60 and all(line["value"] == line["key"] * 11 for line in counts)


@pytest.mark.parametrize("release", ["1.20", "2.3"])
def test_the_verdict_is_what_flink_does(release: str, tmp_path: Path) -> None:
    paths, runs = {}, []
    for number, (name, restore) in enumerate(RESTORES.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        paths[name] = rewritten(restore, release, folder / "rewritten")
        words = ["--n", "60", "--maxp", str(restore.job), "--p", str(restore.subtasks)]
        words += ["--chaining"] if restore.chained else []
        words += ["--arg", "noc"] if restore.snapshot == "snapshot" else []
        runs.append((reporting("C21", paths[name], folder, "hashmap", words), folder))
    found = dict(zip(RESTORES, found_by_runs(job_path(CASE, release), runs, tmp_path), strict=True))
    failures = {name: problem for name, lines in found.items() if (problem := differs(RESTORES[name], lines))}
    assert not failures
    for name, restore in RESTORES.items():
        if not restore.chained or not restore.numbers:  # Vertices are what a job graph says: test_job_graph.py.
            assert thrown(restore, paths[name], release) == (restore.thrown is not None), name


def differs(restore: Restore, found: list[Line] | str) -> str:
    """What Flink did, if it is not what it did before."""
    if isinstance(found, str):
        return "" if restore.thrown and restore.thrown in found else found[-600:]
    return "" if restore.thrown is None and is_right(found) else str(found)[:600]


def thrown(restore: Restore, path: str, release: str) -> bool:
    """Whether the check says that Flink throws this."""
    uids = uids_of(restore)
    numbers = {"parallelism": restore.subtasks, "max_parallelism": restore.job or None}
    job = {"operators": [{"uid": uid, **numbers} for uid in uids]}
    result = stateproc.open(path, uids=uids).check(expect=job, flink_version=release)
    refused = [one for one in result.operators if one.verdict is Verdict.REFUSED]
    assert all(restore.thrown and one.exception and restore.thrown in one.exception for one in refused)
    return bool(refused)
