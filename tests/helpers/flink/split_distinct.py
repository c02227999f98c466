"""Queries with DISTINCT that the planner splits, or not: `test_evolved_settings` changes that in real Flink.

`python -m tests.helpers.flink.split_distinct` lets Flink 2.3 run them over the first rows under each setting, and
records plans and savepoints in `tests/vectors/split-distinct.tar.xz`: what is converted of one has to be the other.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tests.helpers.fixture_archives import pack
from tests.helpers.flink.evolving_job import EvolvingJob, Feed, script
from tests.helpers.paths import VECTORS

ARCHIVE = VECTORS / "split-distinct.tar.xz"
SPLIT = "SET 'table.optimizer.distinct-agg.split.enabled' = '{}';\n"
BATCHES = """SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '1 s';
SET 'table.exec.mini-batch.size' = '3';
SET 'table.optimizer.agg-phase-strategy' = '{}_PHASE';
"""
MODES = {"plain": "", "mini-batch": BATCHES.format("TWO")}
_COLUMNS = (
    "id BIGINT, customer BIGINT, product STRING, amount DOUBLE, quantity INT, price DECIMAL(10, 2), "
    "placed TIMESTAMP(3), paid BOOLEAN, due DATE"
)
FEEDS: dict[str, Feed] = {
    "sales": (_COLUMNS, "append"),
    "moves": (f"{_COLUMNS}, PRIMARY KEY (id) NOT ENFORCED", "upsert"),
}
# Sink → its columns and the query.
QUERIES = {
    "sold": (
        "customer BIGINT, n BIGINT, total DOUBLE, products BIGINT",
        "SELECT customer, COUNT(*), SUM(amount), COUNT(DISTINCT product) FROM sales GROUP BY customer",
    ),
    # A sum of INT and a number, which a Calc divides, and the least and the largest with buckets of their own.
    "means": (
        "customer BIGINT, mean DOUBLE, whole INT, products BIGINT, total INT, least DOUBLE, last STRING",
        "SELECT customer, AVG(amount), AVG(quantity), COUNT(DISTINCT product), SUM(DISTINCT quantity), MIN(amount), "
        "MAX(product) FROM sales GROUP BY customer",
    ),
    "filters": (
        "customer BIGINT, a BIGINT, b BIGINT, c BIGINT, d BIGINT, e INT",
        "SELECT customer, COUNT(DISTINCT product) FILTER (WHERE quantity > 1), COUNT(DISTINCT product), "
        "COUNT(DISTINCT quantity) FILTER (WHERE amount > 2), COUNT(*) FILTER (WHERE amount > 2), "
        "SUM(quantity) FILTER (WHERE amount > 2) FROM sales GROUP BY customer",
    ),
    # Without a key, so that one subtask has all of it, and of two key groups' numbers.
    "everything": (
        "products BIGINT, n BIGINT, price DECIMAL(38, 2)",
        "SELECT COUNT(DISTINCT product), COUNT(*), SUM(DISTINCT price) FROM sales",
    ),
    "types": (
        "product STRING, a BIGINT, b BIGINT, c BIGINT, d BIGINT, e BIGINT, f BIGINT",
        "SELECT product, COUNT(DISTINCT customer), COUNT(DISTINCT amount), COUNT(DISTINCT price), "
        "COUNT(DISTINCT placed), COUNT(DISTINCT paid), COUNT(DISTINCT due) FROM sales GROUP BY product",
    ),
    # An aggregate of what the one before takes back.
    "numbers": (
        "n BIGINT, customers BIGINT",
        "SELECT n, COUNT(*) FROM (SELECT customer, COUNT(DISTINCT UPPER(product)) AS n FROM sales GROUP BY customer "
        "HAVING COUNT(*) > 1) GROUP BY n",
    ),
    # AVG with DISTINCT becomes two calls, each of which has a bit of what it has seen.
    "averages": (
        "customer BIGINT, a BIGINT, b INT, c BIGINT, d DOUBLE, e DECIMAL(38, 6), f DECIMAL(38, 6)",
        "SELECT customer, COUNT(DISTINCT quantity) FILTER (WHERE amount > 2), AVG(DISTINCT quantity), "
        "COUNT(DISTINCT quantity), AVG(DISTINCT amount), AVG(price), AVG(DISTINCT price) FILTER (WHERE amount > 2) "
        "FROM sales GROUP BY customer",
    ),
}
# Of rows that are taken back, whose state only in mini-batches is divided: with one copy of each row, or several, and
# with and without a call that counts them.
CHANGING = {
    "moved": (
        "customer BIGINT, products BIGINT, total DOUBLE",
        "SELECT customer, COUNT(DISTINCT product), SUM(amount) FROM moves GROUP BY customer",
    ),
    "counted": (
        "customer BIGINT, n BIGINT, products BIGINT, mean DOUBLE",
        "SELECT customer, COUNT(*), COUNT(DISTINCT product), AVG(amount) FROM moves GROUP BY customer",
    ),
    "copied": (
        "customer BIGINT, mean DOUBLE, products BIGINT, quantities INT, least INT, last STRING",
        "SELECT customer, AVG(amount), COUNT(DISTINCT product), SUM(DISTINCT quantity), MIN(quantity), MAX(product) "
        "FROM moves GROUP BY customer",
    ),
    "copies": (
        "customer BIGINT, products BIGINT, few BIGINT, n BIGINT, paid BIGINT",
        "SELECT customer, COUNT(DISTINCT product), COUNT(DISTINCT product) FILTER (WHERE quantity < 3), COUNT(*), "
        "COUNT(DISTINCT paid) FROM moves GROUP BY customer",
    ),
}
QUERIES_OF = {"plain": QUERIES, "mini-batch": {**QUERIES, **CHANGING}}
Row = tuple[object, ...]
_AT = "2020-02-0{0}T10:11:12.12{0}"
FIRST: list[Row] = [
    (1, 1, "tea", 10.0, 1, "1.10", _AT.format(1), "true", "2020-01-01"),
    (2, 1, "mate", 4.5, 2, "2.20", _AT.format(2), "false", "2020-01-02"),
    (3, 2, "tea", 20.0, 3, "1.10", _AT.format(1), "true", "1969-01-01"),
    (4, None, None, -1.0, None, None, None, None, None),
    (5, 2, "tea", 7.0, 1, "-99999999.99", _AT.format(3), "true", "2020-01-01"),
    (6, 1, None, None, None, None, None, "false", None),
    (7, 1, "紅茶😀", 2.0, -5, "0.00", _AT.format(4), None, "2020-01-01"),
    (8, 5, "a longer text than sixteen bytes", -0.0, 7, "0.00", "1969-12-31T23:59:59.999", None, "9999-12-31"),
]
SECOND: list[Row] = [
    (11, 1, "tea", 10.0, 1, "1.10", _AT.format(1), "true", "2020-01-01"),
    (12, 1, "oolong", -4.5, -2, "2.21", _AT.format(2), "false", "2020-01-02"),
    (13, 2, "mate", 20.0, 3, "1.10", _AT.format(1), "false", "1969-01-01"),
    (14, None, None, -1.0, None, None, None, None, None),
    (15, None, "tea", 7.0, 1, "-99999999.99", _AT.format(3), "true", "2020-01-01"),
    (16, 1, None, None, None, None, None, "false", None),
    (17, 3, "紅茶😀", 2.5, -5, "0.00", _AT.format(4), None, "2020-01-01"),
    (18, 5, "a longer text than sixteen bytes", 0.0, 7, "0.00", "1969-12-31T23:59:59.999", None, "2020-01-01"),
    (19, 1, "紅茶😀", 2.0, -5, "0.00", _AT.format(5), "true", "2020-01-01"),
    (20, 4, "", "NaN", 2147483647, "1.00", _AT.format(4), None, "2020-01-02"),
]
# In place of the first rows, so that a customer has none any more.
MOVED: list[Row] = [(at, *row[1:]) for at, row in enumerate(SECOND, 1)] + [(3, 6, *FIRST[2][2:])]


def main() -> None:
    """Record what Flink keeps under each setting."""
    folder = Path(tempfile.mkdtemp(prefix="split-distinct-"))
    recorded = folder / "split-distinct"
    for mode, settings in MODES.items():
        home = folder / mode
        home.mkdir()
        text = settings + script(home, FEEDS, QUERIES_OF[mode])
        job = EvolvingJob(("2.3", "2.3"), home, [SPLIT.format(split) + text for split in ("false", "true")])
        job.feed({"sales": FIRST, "moves": FIRST})
        for version in ("old", "new"):
            job.do(job.compile(version), job.run(version, "rocksdb", version, taken=job.path(f"taken-{version}")))
            case = recorded / mode / ("split" if version == "new" else "one")
            shutil.copytree(job.snapshot_of(version), case / "savepoint")
            shutil.copy(job.path(f"{version}.json"), case / "plan.json")
    pack(recorded, ARCHIVE)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
