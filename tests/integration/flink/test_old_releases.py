"""Flink 1.13 and 1.16 restore savepoints of stateproc, and their job continues as it does from Flink's own.

The job of the chains is restored from a savepoint that stateproc wrote, instead of the checkpoint that Flink took
between two rounds, and does the next round. It then records all its states, timers too; they must be those that it
recorded in the fixture.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from stateproc import OperatorBootstrap, SavepointWriter
from stateproc.types import DOUBLE, LONG, STRING, Pojo
from tests.helpers.fixtures import FIXTURES, Fixture, fixtures_in
from tests.helpers.flink.chains import ROCKSDB, Chain, Stage
from tests.helpers.flink.compilation import fixtures_path
from tests.helpers.flink.make_fixtures import write as run_cases
from tests.helpers.flink.restored_state import Line, differences

pytestmark = [pytest.mark.flink, pytest.mark.spark]

RELEASES = ("1.13", "1.16")
UID = "chain"
DONE = 3
"""Rounds after the checkpoint that is rewritten; it is of three subtasks."""
PARALLELISM = 2
BACKENDS = {
    "canonical": ("hashmap", "rocksdb"), "native-hashmap": ("hashmap",), "native-rocksdb": ("rocksdb",),
    "bootstrapped": ("hashmap", "rocksdb"), "from-newer": ("rocksdb",),
}  # fmt: skip
"""What is written, and the backends that load it. Of a checkpoint of 1.20, 1.13 reads neither handles nor files."""
RUNS = [(form, backend) for form, backends in BACKENDS.items() for backend in backends]
TOTALS = Pojo("fixtures.Totals", {"count": LONG, "sum": DOUBLE, "last": STRING})
SCHEMAS = {
    "text": "string", "items": "array<string>", "entries": "map<int, string>", "sum": "bigint",
    "totals": "struct<count: bigint, sum: double, last: string>", "late": "bigint", "user-timers": "bigint",
}  # fmt: skip
Results = Callable[[str], dict[tuple[str, str], list[Line]]]


def after(release: str, rounds: int) -> Fixture:
    """The newest snapshot after so many rounds."""
    name = f"expected-{rounds}.jsonl"
    return [item for item in fixtures_in(FIXTURES / release / "chain-rescaled") if item.manifest["expected"] == name][
        -1
    ]


def frame(spark: SparkSession, lines: list[Line], state: str, kind: str) -> DataFrame:
    """What a state holds, a row per key."""
    rows = [(line["key"], _value(line)) for line in lines if (line["state"], line["kind"]) == (state, kind)]
    return spark.createDataFrame(
        [row for row in rows if row[1] not in (None, [], {})], f"key string, v {SCHEMAS[state]}"
    )


def _value(line: Line) -> Any:
    value = line["value"]
    if line["kind"] == "map":
        return {entry["key"]: entry["value"] for entry in value}
    return (value["count"], value["sum"], value["last"]) if isinstance(value, dict) else value


def bootstrapped(spark: SparkSession, lines: list[Line]) -> OperatorBootstrap:
    """The operator of the chains, from rows."""
    operator = OperatorBootstrap()
    operator.value_state("text", frame(spark, lines, "text", "value"), "v")
    operator.list_state("items", frame(spark, lines, "items", "list"), "v")
    operator.map_state("entries", frame(spark, lines, "entries", "map"), "v")
    operator.reducing_state("sum", frame(spark, lines, "sum", "reducing"), "v")
    operator.aggregating_state("totals", frame(spark, lines, "totals", "aggregating"), "v", type=TOTALS)
    operator.value_state("late", frame(spark, lines, "late", "value"), "v")
    operator.event_time_timers(frame(spark, lines, "user-timers", "timer-event"), "v")
    return operator.processing_time_timers(frame(spark, lines, "user-timers", "timer-processing"), "v")


def written(spark: SparkSession, release: str, form: str, path: Path) -> Path:
    source = after("1.20" if form == "from-newer" else release, DONE)
    if form == "from-newer":
        copy = SavepointWriter.from_existing_savepoint(None, source.snapshot).with_flink_version(release)
        return Path(copy.write(path))
    if form == "bootstrapped":
        writer = SavepointWriter.new_savepoint(spark).with_operator(UID, bootstrapped(spark, list(source.expected())))
    else:
        writer = SavepointWriter.from_existing_savepoint(spark, source.snapshot).with_format(form)
    writer.with_parallelism(UID, PARALLELISM).with_flink_version(release).write(path)
    return path


@pytest.fixture(scope="module")
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What the job of a release recorded, by what was written and the backend that restored it; run on first use."""
    done: dict[str, dict[tuple[str, str], list[Line]]] = {}

    def of(release: str) -> dict[tuple[str, str], list[Line]]:
        if release not in done:
            root = tmp_path_factory.mktemp(f"old-{release}")
            paths = {form: written(spark, release, form, root / form) for form in BACKENDS}
            chains = {run: _chain(*run, paths[run[0]]) for run in RUNS}
            run_cases(release, list(chains.values()), root / "run", fixtures_path(release))
            found = {run: root / "run" / chain.name / f"expected-{DONE + 1}.jsonl" for run, chain in chains.items()}
            done[release] = {run: list(_lines(path)) for run, path in found.items() if path.is_file()}
        return done[release]

    return of


def _chain(form: str, backend: str, path: Path) -> Chain:
    """One more round of the job, from the snapshot at ``path``; a checkpoint shows that it can go on."""
    restored = (("chain.restored", str(path)), ("chain.rounds", str(DONE)))
    stages = (Stage(PARALLELISM, "round checkpoint"),)
    return Chain("chain-small", f"{form}-{backend}", backend, "chain", options=ROCKSDB + restored, stages=stages)


def _lines(path: Path) -> Iterator[Line]:
    for line in path.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(("form", "backend"), RUNS)
def test_the_job_goes_on(results: Results, release: str, form: str, backend: str) -> None:
    recorded = results(release)
    assert (form, backend) in recorded, "Flink has not restored it"
    expected = list(after("1.20" if form == "from-newer" else release, DONE + 1).expected())
    assert {line["kind"] for line in expected} >= {"map", "list", "timer-event", "timer-processing"}
    assert differences(expected, recorded[form, backend], parallelism=1) == []
