"""Copies of a job's states in Delta are equal to its last savepoint, whatever is killed or restored meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.live_copies import copy_live_job

pytestmark = [pytest.mark.flink, pytest.mark.spark]


def test_copies_of_a_job_are_equal_to_its_last_savepoint(tmp_path: Path) -> None:
    """The streams are killed once and the job is restored from a savepoint once."""
    run = copy_live_job(tmp_path, seconds=20, kills=1, interval=3.0, retained=200, keys=200, rate=300)
    assert run.kills == 1
    assert len({item.path.parent for item in run.checkpoints}) == 2
    assert len(run.copied["account"]) > 50 and len(run.copied["products"]) > 50
    assert run.copied == run.expected
