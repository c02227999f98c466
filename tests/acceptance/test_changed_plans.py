"""What real Flink does with the savepoint of a SQL query that changed is what was recorded of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.flink import refused_changes
from tests.helpers.flink.changed_plans import CHANGES, recorded, run

pytestmark = pytest.mark.flink


@pytest.mark.parametrize("release", ["1.20", "2.3"])
def test_flink_does_what_was_recorded(release: str, tmp_path: Path) -> None:
    known = {f"{one.release}/{one.name}": _kinds(one.outcome) for one in recorded() if one.release == release}
    assert {key: _kinds(outcome) for key, outcome in run(release, CHANGES, tmp_path).items()} == known


@pytest.mark.parametrize("release", ["1.20", "2.3"])
def test_flink_fails_with_what_is_refused_or_is_wrong(release: str, tmp_path: Path) -> None:
    known = {f"{one.release}/{one.name}": _kinds(one.outcome) for one in refused_changes.recorded()}
    changes = [one for one in refused_changes.CHANGES if release in one.releases]
    found = refused_changes.run(release, changes, tmp_path)
    assert {key: _kinds(outcome) for key, outcome in found.items()} == {key: known[key] for key in found}


def _kinds(outcome: str) -> list[str]:
    """The exceptions' classes, or the word."""
    return [line.partition(":")[0] for line in outcome.splitlines()]
