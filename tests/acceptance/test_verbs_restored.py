"""Real Flink 1.20 and 2.3 restore what every verb wrote, without Spark, of snapshots of every kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.flink.restoration import Restored, Spec, restore
from tests.helpers.flink.rewrites import Rewrite
from tests.helpers.flink.rewritten_savepoints import restored_differences
from tests.helpers.flink.verb_matrix import KINDS, RELEASES, VERBS, verb_rewrites

pytestmark = pytest.mark.flink

REWRITES = tuple(verb_rewrites())
Results = tuple[dict[str, Path], dict[str, Restored]]


def write(rewrite: Rewrite, folder: Path) -> Path:
    """Write it; a write that is refused fails its own test, because Flink finds no savepoint."""
    try:
        return rewrite.write(None, folder)
    except AssertionError:
        return folder / "refused"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Each savepoint, and what Flink restored of it: one JVM for each release."""
    folder = tmp_path_factory.mktemp("verbs")
    written = {item.name: write(item, folder) for item in REWRITES}
    restored: dict[str, Restored] = {}
    for release in RELEASES:
        specs = [
            Spec(item.name, str(written[item.name]), item.registered, item.backends, (2,))
            for item in REWRITES
            if item.by == release
        ]
        restored |= restore(release, specs, tmp_path_factory.mktemp(f"restored-{release}") / "all")
    return written, restored


@pytest.mark.parametrize("rewrite", REWRITES, ids=lambda item: item.name)
def test_flink_restores_what_a_verb_writes(results: Results, rewrite: Rewrite) -> None:
    written, restored = results
    assert restored_differences(rewrite, written[rewrite.name], restored[rewrite.name]) == []


def test_the_matrix_is_complete() -> None:
    assert len({item.name for item in REWRITES}) == len(VERBS) * len(KINDS) * len(RELEASES) == 112
