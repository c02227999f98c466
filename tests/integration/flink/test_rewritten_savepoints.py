"""Real Flink restores what SavepointWriter and the job files in examples/ made of real Flink's snapshots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

import stateproc
from stateproc.metadata import walk_stream_handles
from stateproc.storage import open_handle
from tests.helpers.flink.canonical_bytes import differences as byte_differences
from tests.helpers.flink.fixture_operators import OPERATORS
from tests.helpers.flink.restoration import BACKENDS, Operator, Restored, Spec, State, restore
from tests.helpers.flink.rewrites import REWRITES, Lines, Rewrite, same
from tests.helpers.flink.rewritten_savepoints import restored_differences
from tests.helpers.paths import ROOT

# The job files in examples/ as rewrites of fixtures by Flink 1.20 and 2.3, and what a job has to find of each.


COMMITTED, EARLIEST = -3, -2
SOURCE, CUSTOMERS = "orders-from-kafka", "orders-per-customer"
KAFKA = OPERATORS["kafka"]
ROWS = ((1, "Ada", 10, True), (2, "Grace", 20, True), (-3, "Žofie", 30, True), (4, "Edsger", 40, False))
"""Rows of the table of customers: id, name, total, active."""


@dataclass(frozen=True)
class ExampleProduct(Rewrite):
    """What a job file writes.

    Attributes:
        file: The file's name in examples/.
        variables: Makes its variables from the path of the source and a new directory.
    """

    file: str = ""
    variables: Callable[[Path, Path], dict[str, str]] = lambda source, folder: {}

    def write_example(self, folder: Path) -> Path:
        """Run the job without Spark; return the savepoint."""
        home = folder / self.name
        home.mkdir()
        values = {"savepoints": str(home), **self.variables(Path(self.source.snapshot), home)}
        report = stateproc.run_job(ROOT / "examples" / self.file, variables=values)
        assert report.status == "written"
        return Path(report.target)


def table_of_customers(source: Path, folder: Path) -> dict[str, str]:
    ids, names, totals, active = zip(*ROWS, strict=True)
    table = pa.table({"id": ids, "name": names, "total": totals, "active": active})
    write_deltalake(str(folder / "customers"), table)
    return {"lake": str(folder), "date": "2026-01-31"}


def customers(lines: Lines) -> Lines:
    """The active customers, and nothing of the source."""
    for key, name, total, active in ROWS:
        line = {"uid": "customers", "key": key, "namespace": None}
        if active:
            yield {**line, "state": "name", "kind": "value", "value": name}
            yield {**line, "state": "total", "kind": "reducing", "value": total}


def reset(lines: Lines) -> Lines:
    """Two partitions have new offsets."""
    new = {0: 120, 1: EARLIEST}
    for line in lines:
        moved = line["kind"] == "splits" and line["value"]["partition"] in new
        offset = new.get(line["value"]["partition"]) if moved else None
        yield {**line, "value": {**line["value"], "starting_offset": offset}} if moved else line


def forked(lines: Lines) -> Lines:
    """One operator has another uid, one is gone; all partitions have splits, which start at the committed offset."""
    for line in lines:
        value = line["value"]
        if line["kind"] == "splits":
            yield {**line, "value": {**value, "starting_offset": COMMITTED}}
        elif line["kind"] == "enumerator":
            yield {**line, "value": {**value, "status": "ASSIGNED"}}
            if value["status"] != "ASSIGNED":
                split = {"topic": value["topic"], "partition": value["partition"]}
                split |= {"starting_offset": COMMITTED, "stopping_offset": None}
                yield {**line, "kind": "splits", "state": "SourceReaderState", "value": split}
        elif line["uid"] == CUSTOMERS:
            yield {**line, "uid": f"{CUSTOMERS}-b"}


def without_products(lines: Lines) -> Lines:
    """One state has expired."""
    return (line for line in lines if (line["uid"], line["state"]) != ("kitchen-ttl", "products"))


CUSTOMERS_OPERATOR = Operator(
    "customers", "LONG", (State("name", "value", "STRING"), State("total", "reducing", "LONG"))
)
FORKED = tuple(
    replace(op, uid=f"{CUSTOMERS}-b") if op.uid == CUSTOMERS else op for op in KAFKA if op.uid != "revenue-per-product"
)


def _product(
    file: str,
    fixture: str,
    by: str,
    variables: Callable[[Path, Path], dict[str, str]],
    *,
    operators: Sequence[Operator] | None = None,
    expected: Callable[[Lines], Lines] = same,
    backends: tuple[str, ...] = BACKENDS,
    max_parallelism: int = 128,
) -> ExampleProduct:
    name = f"{file.removesuffix('.yaml')} for {by}"
    values = {"operators": operators, "expected": expected, "backends": backends, "max_parallelism": max_parallelism}
    return ExampleProduct(name, fixture, (), by=by, file=file, variables=variables, **values)  # type: ignore[arg-type]


def _of_release(by: str) -> tuple[ExampleProduct, ...]:
    return (
        _product(
            "reset-offsets.yaml", f"{by}/kafka-rocksdb-canonical", by,
            lambda source, _: {"source": str(source)}, expected=reset,
        ),
        _product(
            "ab-fork.yaml", f"{by}/kafka-rocksdb-canonical", by,
            lambda source, _: {"source": str(source), "variant": "b"}, operators=FORKED, expected=forked,
        ),
        _product(
            "purge-expired.yaml", f"{by}/kitchen-rocksdb-incremental", by,
            lambda source, _: {"checkpoints": str(source.parent), "uid": "kitchen-ttl", "state": "products",
                               "date": "2099-01-01"},
            expected=without_products, backends=("rocksdb",),
        ),
        _product(
            "nightly-bootstrap.yaml", f"{by}/kitchen-rocksdb-canonical", by, table_of_customers,
            operators=(CUSTOMERS_OPERATOR,), expected=customers,
        ),
    )  # fmt: skip


EXAMPLES = (
    *_of_release("1.20"),
    *_of_release("2.3"),
    _product(
        "migrate-1.13-to-2.3.yaml", "1.13/tiny-rocksdb-canonical", "2.3",
        lambda source, _: {"source": str(source), "uid": "kitchen-string"}, backends=("rocksdb",),
        max_parallelism=256,
    ),
)  # fmt: skip
"""Flink 1.20 reads no metadata of 2.3, which the last writes."""


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
