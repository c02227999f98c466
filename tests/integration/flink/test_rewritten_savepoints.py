"""Real Flink restores what SavepointWriter and the job files in examples/ made of real Flink's snapshots."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import stateproc
from stateproc.metadata import walk_stream_handles
from stateproc.storage import open_handle
from tests.helpers.flink.canonical_bytes import differences as byte_differences
from tests.helpers.flink.example_products import EXAMPLES
from tests.helpers.flink.restoration import Restored, Spec, restore
from tests.helpers.flink.rewrites import REWRITES, Rewrite
from tests.helpers.flink.rewritten_savepoints import restored_differences

pytestmark = [pytest.mark.flink, pytest.mark.spark]

Results = Callable[[str], dict[str, Restored]]


@pytest.fixture(scope="module")
def by_spark(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The path of each, written by Spark."""
    folder = tmp_path_factory.mktemp("by-spark")
    return {rewrite.name: rewrite.write(spark, folder) for rewrite in REWRITES}


@pytest.fixture(scope="module")
def written(by_spark: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The path of each, written by the local engine where no edit needs Spark."""
    folder = tmp_path_factory.mktemp("rewritten")
    written = {item.name: by_spark[item.name] if item.needs_spark else item.write(None, folder) for item in REWRITES}
    return written | {item.name: item.write_example(folder) for item in EXAMPLES}


@pytest.fixture(scope="module")
def results(written: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What a release restored, run on first use."""
    done: dict[str, dict[str, Restored]] = {}

    def of(release: str) -> dict[str, Restored]:
        if release not in done:
            specs = [
                Spec(
                    item.name,
                    str(written[item.name]),
                    item.registered,
                    item.backends,
                    (2,),
                    options=item.options,
                    hooks=item.hooks,
                )
                for item in (*REWRITES, *EXAMPLES)
                if item.by == release
            ]
            done[release] = restore(release, specs, tmp_path_factory.mktemp(f"restored-{release}") / "all")
        return done[release]

    return of


@pytest.mark.parametrize("rewrite", [*REWRITES, *EXAMPLES], ids=lambda item: item.name)
def test_flink_restores_what_is_rewritten(results: Results, written: dict[str, Path], rewrite: Rewrite) -> None:
    restored = results(rewrite.by)[rewrite.name]
    assert restored_differences(rewrite, written[rewrite.name], restored) == []


@pytest.mark.parametrize("rewrite", [item for item in REWRITES if item.keeps_bytes], ids=lambda item: item.name)
def test_entries_are_those_that_were_there(written: dict[str, Path], rewrite: Rewrite) -> None:
    assert byte_differences(rewrite.source.snapshot, written[rewrite.name]) == []


DETERMINED = [item for item in REWRITES if not item.needs_spark and item.backends != ("rocksdb",)]
"""RocksDB databases contain times and identifiers of their own."""


@pytest.mark.parametrize("rewrite", DETERMINED, ids=lambda item: item.name)
def test_both_engines_write_the_same(written: dict[str, Path], by_spark: dict[str, Path], rewrite: Rewrite) -> None:
    """What Spark's tasks write has the same bytes as what is restored here, which is written without Spark."""
    assert streams_of(written[rewrite.name]) == streams_of(by_spark[rewrite.name])


def streams_of(path: Path) -> list[tuple[str, str, bytes]]:
    """(operator, kind of handle, bytes) of all state, in the order of ``_metadata``."""
    snapshot = stateproc.open(path)
    found = []
    for use in walk_stream_handles(snapshot.metadata):
        source = open_handle(use.handle, snapshot.location)
        found.append((use.operator.operator_id, type(use.handle).__name__, bytes(source.read(0, source.size))))
    return found
