"""The job files in examples/ as rewrites of fixtures by Flink 1.20 and 2.3, and what a job has to find of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

import stateproc
from tests.helpers.flink.fixture_operators import OPERATORS
from tests.helpers.flink.restoration import BACKENDS, Operator, State
from tests.helpers.flink.rewrites import Lines, Rewrite, same
from tests.helpers.paths import ROOT

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
