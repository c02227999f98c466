"""State gets or loses a time to live, rows come in batches, aggregates get two phases, DISTINCT is split: real Flink
goes on with the same queries under the other setting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from stateproc import SavepointWriter
from tests.helpers.flink import split_distinct
from tests.helpers.flink.evolving_job import SOURCES, EvolvingJob, Feed, script, table
from tests.helpers.flink.split_distinct import BATCHES, CHANGING, SPLIT

pytestmark = pytest.mark.flink

FEEDS: dict[str, Feed] = {
    "orders": ("id BIGINT, customer BIGINT, product STRING, amount DOUBLE, proc AS PROCTIME()", "append"),
    "payments": ("order_id BIGINT, payer STRING", "append"),
    "customers": ("customer BIGINT, name STRING, city STRING, PRIMARY KEY (customer) NOT ENFORCED", "upsert"),
    **split_distinct.FEEDS,
}
NUMBERED = "SELECT {0} FROM (SELECT {0}, ROW_NUMBER() OVER (PARTITION BY {1}) AS r FROM {2}) WHERE r <= {3}"
# Sink → its columns and the query.
QUERIES = {
    "totals": (
        "customer BIGINT, n BIGINT, total DOUBLE, products BIGINT",
        "SELECT customer, COUNT(*), SUM(amount), COUNT(DISTINCT product) FROM orders GROUP BY customer",
    ),
    # Of rows that are taken back: the least one is found in a view.
    "least": (
        "n BIGINT, least DOUBLE",
        "SELECT n, MIN(total) FROM (SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM orders "
        "GROUP BY customer) GROUP BY n",
    ),
    "paid": ("id BIGINT, payer STRING", "SELECT id, payer FROM orders JOIN payments ON id = order_id"),
    "named": (
        "id BIGINT, name STRING",
        "SELECT id, name FROM orders AS o LEFT JOIN customers AS c ON o.customer = c.customer",
    ),
    "top": (
        "product STRING, id BIGINT, amount DOUBLE",
        NUMBERED.format("product, id, amount", "product ORDER BY amount", "orders", 2),
    ),
    "ranked": (
        "city STRING, name STRING, customer BIGINT",
        NUMBERED.format("city, name, customer", "city ORDER BY name", "customers", 1),
    ),
    "last": ("customer BIGINT, id BIGINT", NUMBERED.format("customer, id", "customer ORDER BY proc DESC", "orders", 1)),
    "first": ("product STRING, id BIGINT", NUMBERED.format("product, id", "product ORDER BY proc", "orders", 1)),
    # By the sink's key, which is none of the query: the sink keeps the rows (its materializer).
    "people": (
        "name STRING, customer BIGINT, city STRING, PRIMARY KEY (name) NOT ENFORCED",
        "SELECT name, customer, city FROM customers",
    ),
    **split_distinct.QUERIES,
    **CHANGING,
}  # fmt: skip
UNASKED = " ON CONFLICT DO DEDUPLICATE"
"""What Flink before 2.3 does unasked before such a sink."""
Rows = dict[str, list[tuple[object, ...]]]
FIRST: Rows = {
    "orders": [
        (1, 1, "tea", 10.0),
        (2, 1, "mate", 4.5),
        (3, 2, "tea", 20.0),
        (4, None, None, -1.0),
        (5, 2, "tea", 7.0),
    ],
    "payments": [(1, "card"), (3, "cash"), (3, "cash"), (9, None)],
    "customers": [(1, "Ann", "Rome"), (2, "Bob", "Rome"), (9, "Zoë", None)],
    "sales": split_distinct.FIRST,
    "moves": split_distinct.FIRST,
}
SECOND: Rows = {
    "orders": [(6, 1, "tea", 15.0), (7, 3, "紅茶", 1.5), (8, 2, "mate", 4.5), (9, None, "tea", 6.0)],
    "payments": [(2, "card"), (6, "cash"), (5, None)],
    "customers": [(3, "Cid", "Rome"), (1, "Zed", "Rome"), (2, "Bea", "Oslo")],
    "sales": split_distinct.SECOND,
    "moves": split_distinct.MOVED,
}
TTL = "SET 'table.exec.state.ttl' = '{}';\n"
CHANGES = {
    "ttl on": (TTL.format("0 ms"), TTL.format("1 d")),
    "ttl off": (TTL.format("36 h"), TTL.format("0 ms")),
    # With these what DISTINCT has seen gets buckets.
    "two phases": ("", BATCHES.format("TWO") + SPLIT.format("true")),
    "one phase": (BATCHES.format("TWO"), ""),
    # State V2 has the names and the bytes of the first; a savepoint of such a job is native.
    "asynchronous": ("", "SET 'table.exec.async-state.enabled' = 'true';\n"),
    "batches": ("", BATCHES.format("ONE") + SPLIT.format("true")),
}


def queries(change: str) -> list[str]:
    """In one phase the sums of rows that are taken back are not known by their buckets."""
    return [name for name in QUERIES if change != "batches" or name not in CHANGING]


def scripts(folder: Path, release: str, change: str) -> list[str]:
    columns, query = QUERIES["people"]
    asked = {**QUERIES, "people": (columns, query + UNASKED * (release == "2.3"))}
    text = script(folder, FEEDS, {name: asked[name] for name in queries(change)})
    return [setting + text for setting in CHANGES[change]]


def feed(job: EvolvingJob, version: int, *parts: Rows) -> None:
    job.feed({name: [row for part in parts for row in part[name]] for name in FEEDS}, later=["orders"])


RUNS = [
    ("1.20", "ttl off"),
    ("2.3", "ttl on"),
    ("1.20", "two phases"),
    ("2.3", "one phase"),
    ("2.3", "batches"),
    ("2.3", "asynchronous"),
]


@pytest.fixture(scope="module", params=RUNS, ids=str)
def flink(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EvolvingJob]:
    """The old setting has seen the first rows; `all` are the results of the new one over all rows."""
    release, change = request.param
    folder = tmp_path_factory.mktemp("settings")
    made = EvolvingJob((release, release), folder, scripts(folder, release, change))
    feed(made, 0, FIRST)
    made.do(made.compile("old"), made.run("old", "rocksdb", "old", taken=made.path("taken")))
    feed(made, 1, FIRST, SECOND)
    made.do(made.compile("new"), made.run("new", "hashmap", "all"))
    yield made


def test_queries_go_on_under_another_setting(flink: EvolvingJob, request: pytest.FixtureRequest) -> None:
    _, change = request.node.callspec.params["flink"]
    lives, names = change.startswith("ttl"), queries(change)

    def evolve(writer: SavepointWriter) -> None:
        writer.evolve(flink.path("old.json"), flink.path("new.json"))
        assert str(writer.plan()).count("time to live") >= len(names) * lives

    flink.go_on(feed, SECOND, evolve)
    flink.do(flink.run("new", "hashmap", "untouched", flink.snapshot("canonical")))
    old, whole = flink.changes("old"), flink.changes("all")
    kept = change == "asynchronous"
    for form in (*(f"new-{form}" for form in SOURCES), *["untouched"] * kept):
        new = flink.changes(form)
        found = {name: table(old.get(name, []), new.get(name, [])) for name in names}
        assert found == {name: table(whole.get(name, [])) for name in names}, form
        assert all(Counter(whole[name]) != Counter(old.get(name, [])) for name in names if name != "first")
    if kept:
        return
    # Older releases refuse such state, and Flink 2 that of a sink, a value that is a list.
    expected = "StateMigrationException" if lives else "Cannot map checkpoint/savepoint state for operator"
    assert expected in Path(flink.path("untouched.error")).read_text()


# Releases → the setting under which rows come in batches, so that the incremental aggregate has what DISTINCT has seen.
NOT_SPLIT = {("2.3", "2.3"): "", ("1.20", "2.3"): BATCHES.format("TWO")}


@pytest.mark.parametrize("releases", NOT_SPLIT, ids=" to ".join)
def test_distinct_is_not_split_any_more(releases: tuple[str, str], tmp_path: Path) -> None:
    settings = NOT_SPLIT[releases]
    sinks = split_distinct.QUERIES_OF["mini-batch" if settings else "plain"]
    text = script(tmp_path, split_distinct.FEEDS, sinks)
    scripts = [SPLIT.format("true") + settings + text, SPLIT.format("false") + text]
    job = EvolvingJob(releases, tmp_path, scripts)

    def sell(job: EvolvingJob, version: int, *parts: Rows) -> None:
        job.feed({name: [row for part in parts for row in part[name]] for name in split_distinct.FEEDS})

    job.begin(sell, FIRST, SECOND)
    job.go_on(sell, SECOND, lambda writer: writer.evolve(job.path("old.json"), job.path("new.json")))
    job.check(sinks)
