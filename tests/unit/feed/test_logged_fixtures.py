"""The chains whose job logs its changes have the features for which they were recorded."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from stateproc.metadata.keyed_handles import ChangelogHandle
from stateproc.metadata.stream_handles import FileHandle
from stateproc.metadata.walk import walk_stream_handles
from tests.helpers.change_logs import SAME_VALUES, LoggedChain, LoggedSnapshot, logged_chains

RELEASES = ("1.20", "2.3")
pytestmark = pytest.mark.exhaustive
COMPACTED_ONLY = 11
WITHOUT_CHANGES = (3, COMPACTED_ONLY, 14)
"""Steps of which the job logs nothing."""


def checkpoints(release: str, backend: str) -> list[LoggedSnapshot]:
    return [item for item in logged_chains(release)[backend].snapshots if item.kind == "checkpoint"]


def job_of(snapshot: LoggedSnapshot) -> str:
    return snapshot.path.split("/")[-2]


def files(snapshot: LoggedSnapshot) -> set[str]:
    """Return the files outside the checkpoint's own directory: those that several may share."""
    handles = (use.handle for use in walk_stream_handles(snapshot.open().metadata))
    return {handle.path for handle in handles if isinstance(handle, FileHandle) and "/shared/" in handle.path}


def what_happened(line: dict[str, object]) -> str:
    if "act" in line:
        return str(line["act"])
    before, after = line.get("before"), line.get("after")
    if before == after:
        return "same" if after is not None else "nothing"
    return "insert" if before is None else "delete" if after is None else "update"


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("backend", ["rocksdb", "hashmap", "changelog"])
def test_more_than_twenty_checkpoints_of_a_job_that_is_restored_and_rescaled(release: str, backend: str) -> None:
    found = checkpoints(release, backend)
    assert [item.step for item in found if item.step <= 24] == sorted(item.step for item in found)
    assert {item.step for item in found} == set(range(1, 25))
    assert len({job_of(item) for item in found}) == 5
    degrees = [item.parallelism for item in found]
    assert [degrees[0], *(two for one, two in pairwise(degrees) if one != two)] == [2, 3, 1]
    assert [item.kind for item in logged_chains(release)[backend].snapshots[-2:]] == ["native", "canonical"]


@pytest.mark.parametrize("release", RELEASES)
def test_the_log_has_changes_of_all_kinds(release: str) -> None:
    lines = logged_chains(release)["rocksdb"].lines
    found = Counter((line["kind"], what_happened(line)) for line in lines)
    plain = ("insert", "update", "delete")
    wanted = {
        **dict.fromkeys(("value", "list", "map", "reducing"), (*plain, "same", "nothing")),
        **dict.fromkeys(("aggregating", "window"), plain),
        "broadcast": (*plain, "same"),
        **dict.fromkeys(("timer-event", "timer-processing"), ("set", "deleted", "fired")),
        **dict.fromkeys(("operator-list", "operator-union"), ("insert", "delete")),
    }
    assert [(kind, act) for kind, acts in wanted.items() for act in acts if found[kind, act] < 3] == []
    merged = [line for line in lines if line["uid"] == "feed-sessions" and what_happened(line) == "deleted"]
    assert len(merged) > 10, "sessions that others swallowed"


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("backend", ["rocksdb", "hashmap", "changelog"])
def test_some_steps_change_nothing_and_some_write_what_is_there(release: str, backend: str) -> None:
    logged: LoggedChain = logged_chains(release)[backend]
    steps = {int(line["step"]) for line in logged.lines}
    assert steps == set(range(1, 25)) - set(WITHOUT_CHANGES)
    same = [line for line in logged.lines if line["step"] == SAME_VALUES and what_happened(line) == "same"]
    assert len(same) > 50


@pytest.mark.parametrize("release", RELEASES)
def test_checkpoints_of_rocksdb_share_tables_until_they_are_compacted(release: str) -> None:
    found = {item.step: files(item) for item in checkpoints(release, "rocksdb")}
    jobs = {item.step: job_of(item) for item in checkpoints(release, "rocksdb")}
    restored = [step for step in range(2, 25) if jobs[step] != jobs[step - 1]]
    assert restored == [7, 12, 17, 21]
    for step in range(2, 25):
        if step not in (*restored, COMPACTED_ONLY):
            assert found[step] & found[step - 1], step
    # A compaction of everything: few tables stay, and no row has changed.
    assert len(found[10] & found[COMPACTED_ONLY]) < len(found[10]) / 2
    # Restored with NO_CLAIM, a job uploads all files anew; with CLAIM it refers to those of the job before.
    assert all(jobs[7] in path for path in found[7])
    assert any(jobs[20] in path for path in found[21])


@pytest.mark.parametrize("release", RELEASES)
def test_changelogs_are_materialized_now_and_then(release: str) -> None:
    found = set()
    for item in checkpoints(release, "changelog"):
        keyed = [task.managed_keyed for operator in item.open().metadata.operators for task in operator.subtasks]
        handles = [handle for handle in keyed if isinstance(handle, ChangelogHandle)]
        assert handles
        found |= {(handle.materialization_id > 0, bool(handle.non_materialized)) for handle in handles}
    assert found == {(False, True), (True, True), (True, False)}
