"""A job that goes on while its checkpoints are read: as the helper for streams says."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

import stateproc
from stateproc.metadata.stream_handles import FileHandle
from stateproc.metadata.walk import walk_stream_handles
from tests.helpers.live_job import JobFailed, LiveJob

pytestmark = pytest.mark.flink

QUICK = {"interval": 0.5, "retained": 2, "keys": 200, "rate": 1000}


def shared_files(checkpoint: Path) -> set[str]:
    handles = (use.handle for use in walk_stream_handles(stateproc.open(checkpoint).metadata))
    return {handle.path for handle in handles if isinstance(handle, FileHandle) and "/shared/" in handle.path}


def test_a_live_job_keeps_its_last_checkpoints_and_goes_on_from_what_is_left(tmp_path: Path) -> None:
    root, savepoints = tmp_path / "checkpoints", tmp_path / "savepoints"
    with LiveJob.start(root, **QUICK) as first:  # type: ignore[arg-type]
        assert first.wait_for_checkpoint(4).number >= 4
        savepoint = first.cancel_with_savepoint(savepoints)
    saved = stateproc.open(savepoint, uids={"accounts", "changes"})
    own, numbers = saved.metadata.checkpoint_id, [item.number for item in first.completed]
    # On a busy machine one more is complete between the savepoint and the end.
    assert numbers == [number for number in range(1, numbers[-1] + 1) if number != own] and numbers[-1] >= own - 1
    assert all(one.millis < two.millis for one, two in pairwise(first.completed))
    assert first.retained() == [item.path for item in first.completed[-2:]]
    assert shared_files(first.retained()[0]) & shared_files(first.retained()[1])
    assert stateproc.open(first.retained()[-1]).diff(saved).equal
    assert {state.name: len(state.to_arrow()) > 100 for state in saved["accounts"].states} == {
        "account": True,
        "recent": True,
        "products": True,
        "closing": True,
        "event timers": True,
        "processing timers": False,
    }

    with LiveJob.start(root, restore=savepoint, **QUICK) as second:  # type: ignore[arg-type]
        assert second.job_id != first.job_id
        assert second.wait_for_checkpoint(1).number > own, "the savepoint has an id, too"
        second.kill()
        with pytest.raises(JobFailed, match="the JVM has ended"):
            second.wait_for_checkpoint(1000)
    crashed = second.retained()[-1]
    feed = stateproc.changes(saved, crashed, uid="accounts", state="account")
    assert len(feed.to_arrow()) > 50

    with LiveJob.start(root, restore=crashed, claim=True, **QUICK) as third:  # type: ignore[arg-type]
        third.pause()
        before = third.checkpoint()
        with pytest.raises(JobFailed, match="savepoint"):
            third.savepoint(savepoints, "neither")
        equal = third.savepoint(savepoints, "native")
        assert stateproc.open(before).diff(stateproc.open(equal)).equal
        third.resume()
        final = third.stop_with_savepoint(savepoints)
    assert not third.retained(), "Flink deletes the checkpoints of a job that has finished"
    assert not stateproc.open(equal).diff(stateproc.open(final)).equal
