"""A SQL job goes on with a changed query: real Flink runs the old plan, restores the new one, and results are equal.

One job has all queries. In its next version some are as they were, under other numbers, some are gone or new, and some
changed: those begin with the restore.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from stateproc.errors import InvalidOption
from stateproc.query_plans.plan_file import read_plan
from stateproc.query_plans.plan_matching import main_uid
from tests.helpers.flink.evolving_job import NEW_PLANNER, RELEASES, SOURCES, EvolvingJob, Feed, script, table

pytestmark = pytest.mark.flink

ORDERS = "note STRING, id BIGINT, customer BIGINT, product STRING, amount DOUBLE"
# Of what ROW_NUMBER numbers, the planner reads all columns: in a table of its own.
OFFERS = "product STRING, id BIGINT, amount DOUBLE"
VISITS = "customer BIGINT, id BIGINT, proc AS PROCTIME()"
ACCOUNTS = "account BIGINT, branch STRING, balance DOUBLE, points BIGINT, PRIMARY KEY (account) NOT ENFORCED"
NAMES = "customer BIGINT, name STRING, PRIMARY KEY (customer) NOT ENFORCED"
FEEDS: dict[str, Feed] = {
    "orders": (ORDERS, "append"),
    "offers": (OFFERS, "append"),
    "visits": (VISITS, "append"),
    "customers": (NAMES, "upsert"),
    "accounts": (ACCOUNTS, "upsert"),
}

NUMBER = "ROW_NUMBER() OVER (PARTITION BY {} DESC) AS r"
JOINED = "SELECT id, name FROM orders AS o LEFT JOIN customers AS c ON o.customer = c.customer"
RANKED = f"SELECT id, product, amount, {NUMBER.format('product ORDER BY amount')} FROM offers"
TOP = f"SELECT product, id, amount FROM ({RANKED}) WHERE r <= 2"
NEWEST = f"SELECT customer, id, {NUMBER.format('customer ORDER BY proc')} FROM visits"
NUMBERED = f"SELECT product, id, {NUMBER.format('product ORDER BY amount')} FROM offers WHERE id > 1"
LARGEST = f"SELECT product, id FROM ({NUMBERED}) WHERE r = 1"
LAST = f"SELECT customer, id FROM ({NEWEST}) WHERE r = 1"
PER_CUSTOMER = "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer"
NESTED = f"SELECT n, COUNT(*) FROM ({PER_CUSTOMER}) AS c GROUP BY n"
# Sink → its columns, the old query and the new one; None: there is none.
QUERIES: dict[str, tuple[str, str | None, str | None]] = {
    "added": (
        "product STRING, n BIGINT, note STRING",
        None,
        "SELECT product, COUNT(*), MIN(note) FROM orders GROUP BY product",
    ),
    "totals": (
        "customer BIGINT, n BIGINT, total DOUBLE, largest DOUBLE, products BIGINT",
        "SELECT customer, COUNT(*), SUM(amount), MAX(amount), COUNT(DISTINCT product) FROM orders GROUP BY customer",
        "SELECT customer AS c, COUNT(*) AS n, SUM(amount) AS s, MAX(amount) AS m, COUNT(DISTINCT product) AS p "
        "FROM orders GROUP BY customer",
    ),
    "joined": ("id BIGINT, name STRING", JOINED, JOINED),
    "top": ("product STRING, id BIGINT, amount DOUBLE", TOP, TOP),
    "last": ("customer BIGINT, id BIGINT", LAST, LAST),
    "gone": ("product STRING, s DOUBLE", "SELECT product, SUM(amount) FROM orders GROUP BY product", None),
    "filtered": (
        "product STRING, n BIGINT, s DOUBLE",
        "SELECT product, COUNT(*), SUM(amount) FROM orders WHERE amount > 0 GROUP BY product",
        "SELECT product, COUNT(*), SUM(amount) FROM orders WHERE amount > 5 GROUP BY product",
    ),
    "nested": ("n BIGINT, customers BIGINT", NESTED, NESTED),
    # Over groups of its own: calls in another order, one gone, and two that begin with the restore.
    "calls": (
        "product STRING, customer BIGINT, a DOUBLE, n BIGINT, b BIGINT, c DOUBLE, d DOUBLE",
        "SELECT product, customer, SUM(amount), COUNT(*), MIN(id), AVG(amount), CAST(NULL AS DOUBLE) FROM orders "
        "GROUP BY product, customer",
        "SELECT product, customer, AVG(amount), COUNT(*), MAX(id), SUM(amount), AVG(amount + 1) FROM orders "
        "GROUP BY product, customer",
    ),
    # What the old query computed of the same columns.
    "mean": (
        "product STRING, a DOUBLE, b BIGINT",
        "SELECT product, SUM(amount), COUNT(amount) FROM offers GROUP BY product",
        "SELECT product, AVG(amount), COUNT(amount) FROM offers GROUP BY product",
    ),
    "parts": (
        "customer BIGINT, a BIGINT, b BIGINT",
        "SELECT customer, AVG(id), CAST(NULL AS BIGINT) FROM visits GROUP BY customer",
        "SELECT customer, SUM(id), COUNT(id) FROM visits GROUP BY customer",
    ),
    # Rows that are taken back: SUM counts them, and so does the aggregate if the query does not.
    "balances": (
        "branch STRING, a DOUBLE, b BIGINT, c BIGINT",
        "SELECT branch, SUM(balance), COUNT(*), AVG(points) FROM accounts GROUP BY branch",
        "SELECT branch, AVG(balance), COUNT(balance), SUM(points) FROM accounts GROUP BY branch",
    ),
    "points": (
        "points BIGINT, a DOUBLE, b BIGINT",
        "SELECT points, AVG(balance), CAST(NULL AS BIGINT) FROM accounts GROUP BY points",
        "SELECT points, SUM(balance), COUNT(*) FROM accounts GROUP BY points",
    ),
    # What DISTINCT has seen is kept by the number of its columns among all: 0 and 1 change places, 2 is gone.
    "seen": (
        "product STRING, a BIGINT, b DOUBLE, c BIGINT",
        "SELECT product, COUNT(DISTINCT customer), SUM(DISTINCT amount), COUNT(DISTINCT id) + 0 * COUNT(*) "
        "FROM orders WHERE id > 0 GROUP BY product",
        "SELECT product, COUNT(*), SUM(DISTINCT amount), COUNT(DISTINCT customer) FROM orders WHERE id > 0 "
        "GROUP BY product",
    ),
    "filters": (
        "product STRING, a BIGINT, b BIGINT, c DOUBLE",
        "SELECT product, COUNT(DISTINCT customer) FILTER (WHERE amount > 5), COUNT(DISTINCT customer), "
        "SUM(amount) + 0 * COUNT(amount) FROM orders WHERE id > -1 GROUP BY product",
        "SELECT product, COUNT(DISTINCT customer) FILTER (WHERE amount > 5), COUNT(DISTINCT customer), AVG(amount) "
        "FROM orders WHERE id > -1 GROUP BY product",
    ),
    "branches": (
        "branch STRING, a BIGINT, b DOUBLE, c BIGINT",
        "SELECT branch, COUNT(DISTINCT points), SUM(balance), COUNT(*) FROM accounts WHERE account > 0 GROUP BY branch",
        "SELECT branch, COUNT(balance), AVG(balance), COUNT(DISTINCT points) FROM accounts WHERE account > 0 "
        "GROUP BY branch",
    ),
    # Flink 2 leaves rows out of the normalization itself: of before those that pass the filter stay, also under a new
    # aggregate that only such rows reach.
    "rich": (
        "branch STRING, a BIGINT, b DOUBLE",
        "SELECT branch, COUNT(*), SUM(balance) FROM accounts WHERE points > 5 AND account <> 3 GROUP BY branch",
        "SELECT branch, COUNT(*), SUM(balance) FROM accounts WHERE points > 5 AND account <> 3 GROUP BY branch",
    ),
    # TopN of one row, which Flink 2 asks for fewer changes.
    "largest": (
        "product STRING, id BIGINT",
        LARGEST,
        LARGEST,
    ),
    # Lists and maps of calls are kept by the number of the call.
    "extremes": (
        "branch STRING, a DOUBLE, b BIGINT, c DOUBLE",
        "SELECT branch, MIN(balance), MAX(points), SUM(balance) FROM accounts WHERE account > -1 GROUP BY branch",
        "SELECT branch, SUM(balance), MAX(points), MIN(balance) FROM accounts WHERE account > -1 GROUP BY branch",
    ),
    "highest": (
        "branch STRING, a BIGINT, b BIGINT",
        "SELECT branch, CHAR_LENGTH(LISTAGG(branch)) + COUNT(*), MAX(points) FROM accounts WHERE account > -2 "
        "GROUP BY branch",
        "SELECT branch, COUNT(*), MAX(points) FROM accounts WHERE account > -2 GROUP BY branch",
    ),
    "values": (
        "product STRING, a STRING, b BIGINT, c BIGINT",
        "SELECT product, LISTAGG(CAST(id AS STRING)), FIRST_VALUE(id), LAST_VALUE(customer) FROM orders WHERE id > -3 "
        "GROUP BY product",
        "SELECT product, LISTAGG(CAST(id AS STRING)), LAST_VALUE(customer), FIRST_VALUE(id) FROM orders WHERE id > -3 "
        "GROUP BY product",
    ),
    "collected": (
        "product STRING, a STRING, b BIGINT, c STRING",
        "SELECT product, JSON_ARRAYAGG(id), CARDINALITY(ARRAY_AGG(customer)), CAST(COUNT(DISTINCT id) AS STRING) "
        "FROM orders WHERE id > -4 GROUP BY product",
        "SELECT product, CAST(COUNT(DISTINCT id) AS STRING), CARDINALITY(ARRAY_AGG(customer)), JSON_ARRAYAGG(id) "
        "FROM orders WHERE id > -4 GROUP BY product",
    ),
    "begins": (
        "product STRING, a BIGINT, b BIGINT",
        "SELECT product, COUNT(*), CAST(NULL AS BIGINT) FROM orders WHERE id > -2 GROUP BY product",
        "SELECT product, COUNT(*), COUNT(DISTINCT customer) FROM orders WHERE id > -2 GROUP BY product",
    ),
    "changed": (
        "customer BIGINT, a DOUBLE, b DOUBLE",
        "SELECT customer, MIN(amount), SUM(amount) FROM orders GROUP BY customer",
        "SELECT customer, MIN(amount), MAX(amount) FROM orders GROUP BY customer",
    ),
}
CONTINUED = ("totals", "joined", "top", "nested", "last", "rich", "largest")
COMPARED = ("mean", "parts", "balances", "points", "seen", "filters", "branches", "extremes", "highest", "values")
COMPARED += ("collected",)
BEGUN = ("added", "changed")

# The groups of "calls" that the second rows are in: AVG, COUNT and SUM of all rows, MAX and the other AVG of these.
CALLS = Counter(
    {
        "[tea, 1, 12.5, 2, 6, 25.0, 16.0]": 1,
        "[紅茶, 3, 1.5, 1, 7, 1.5, 2.5]": 1,
        "[mate, 2, 4.5, 1, 8, 4.5, 5.5]": 1,
        "[tea, null, 6.0, 1, 9, 6.0, 7.0]": 1,
        "[mate, 3, 99.0, 1, 10, 99.0, 100.0]": 1,
    }
)
Rows = dict[str, list[tuple[object, ...]]]
FIRST: Rows = {
    "orders": [
        (1, 1, "tea", 10.0), (2, 1, "mate", 4.5), (3, 2, "tea", 20.0), (4, None, None, -1.0), (5, 2, "tea", 7.0)
    ],
    "customers": [(1, "Ann"), (2, "Bob"), (9, "Zoë")],
    "visits": [(1, 1), (1, 2), (2, 3), (None, 4)],
    "accounts": [(1, "A", 10.0, 5), (2, "A", None, None), (3, "B", 4.5, 7), (4, None, -1.0, None), (5, "B", 2.5, 7)],
}  # fmt: skip
SECOND: Rows = {
    "orders": [
        (6, 1, "tea", 15.0), (7, 3, "紅茶", 1.5), (8, 2, "mate", 4.5), (9, None, "tea", 6.0), (10, 3, "mate", 99.0)
    ],
    "customers": [(3, "Cid"), (2, "Bea")],
    "visits": [(2, 8), (3, 10)],
    "accounts": [(1, "B", 12.0, 5), (2, "A", 3.0, 2), (4, "A", -1.0, 7), (6, None, None, None), (5, "B", None, 7)],
}  # fmt: skip


for part in (FIRST, SECOND):
    part["offers"] = [(product, number, amount) for number, _, product, amount in part["orders"]]


def feed(flink: EvolvingJob, *parts: Rows) -> None:
    """Write what the sources will emit."""
    rows = {name: [row for part in parts for row in part[name]] for name in FEEDS}
    rows["orders"] = [(f"n{row[0]}", *row) for row in rows["orders"]]
    # One source is read before the other, so that results are always the same.
    flink.feed(rows, later=["orders"])


def _script(folder: Path, version: int) -> str:
    """The statements of the job, in its first or its next version."""
    queries = {name: (one[0], one[version]) for name, one in QUERIES.items()}
    return script(folder, FEEDS, {name: (columns, query) for name, (columns, query) in queries.items() if query})


@pytest.fixture(scope="module", params=NEW_PLANNER)
def flink(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EvolvingJob]:
    """The old query has seen the first rows; `all` are the results of the new one over all rows."""
    folder = tmp_path_factory.mktemp("evolved")
    made = EvolvingJob(RELEASES[request.param], folder, [_script(folder, version) for version in (1, 2)])
    feed(made, FIRST)
    made.do(made.compile("old"), made.run("old", "rocksdb", "old", taken=made.path("taken")), version="old")
    feed(made, FIRST, SECOND)
    made.do(made.compile("new"), made.run("new", "hashmap", "all"))
    yield made


def uid_of(flink: EvolvingJob, version: str, name: str) -> str:
    """The uid of the operator before the sink of a query that holds state."""
    plan = read_plan(flink.path(f"{version}.json"))
    (node,) = [one for one in plan.nodes if f"`{name}_out`" in str(one.at("dynamicTableSink", "table", "identifier"))]
    while node.kind not in ("stream-exec-group-aggregate", "stream-exec-deduplicate"):
        (node,) = node.sources
    return main_uid(plan, node)


def evolve(flink: EvolvingJob, form: str, target: str, mapped: dict[str, str], *empty: str) -> str:
    """Write a savepoint of the new query; return the plan."""
    writer = flink.writer(form)
    uids = [uid_of(flink, "new", name) for name in empty]
    plans = flink.path("old.json"), flink.path("new.json")
    writer.evolve(*plans, mapped=mapped, empty=uids, new_aggregates="empty")
    plan = str(writer.plan())
    writer.write(flink.path(target))
    return plan


def test_the_new_query_goes_on(flink: EvolvingJob) -> None:
    assert "`note`" not in _read(flink, "old") and "`note`" in _read(flink, "new")
    for form in SOURCES:
        plan = evolve(flink, form, f"evolved-{form}", {}, *BEGUN, "filtered")
        assert "note: kept: Rank[" in plan and "note: dropped: GroupAggregate[" in plan
        assert "AVG(amount) kept, COUNT(*) kept, SUM(amount) kept, MAX(id) from now on, AVG($" in plan
        assert "MIN(id) dropped" in plan
        assert "COUNT(amount) kept, AVG(amount) from COUNT and SUM" in plan
        assert "AVG(balance) from SUM, COUNT(balance) from SUM, SUM(points) from AVG" in plan
        assert "COUNT(*) kept, SUM(balance) from AVG, AVG(balance) dropped" in plan
        assert "SUM(id) from AVG, COUNT(id) from AVG, AVG(id) dropped" in plan
        assert "SUM(DISTINCT amount) kept, COUNT(DISTINCT customer) kept, COUNT(DISTINCT id) dropped" in plan
        assert f"({uid_of(flink, 'new', 'added')}), its results begin with the restore" in plan
    feed(flink, SECOND)
    flink.do(*(
        flink.run("new", backend, f"new-{form}", flink.path(f"evolved-{form}")) for form, backend in SOURCES.items()
    ))  # fmt: skip
    old, whole = flink.changes("old"), flink.changes("all")
    for form in SOURCES:
        new = flink.changes(f"new-{form}")
        for name in CONTINUED:
            assert table(old[name], new[name]) == table(whole[name]), (form, name)
        # From the restore on: what a query that begins with the second rows gives.
        assert table(new["added"]) == Counter({"[tea, 2, n6]": 1, "[紅茶, 1, n7]": 1, "[mate, 2, n10]": 1})
        assert table(new["filtered"]) == Counter({"[tea, 2, 21.0]": 1, "[mate, 1, 99.0]": 1})
        assert "gone" not in new
        changed = Counter({"[1, 15.0, 15.0]": 1, "[2, 4.5, 4.5]": 1, "[3, 1.5, 99.0]": 1, "[null, 6.0, 6.0]": 1})
        assert table(new["changed"]) == changed
        # DISTINCT has seen customer 1 of tea, and 2 of mate, before; what begins has not.
        assert newest(new["seen"])["tea"] == "[tea, 5, 58.0, 2]"
        assert newest(new["begins"]) == {"tea": "[tea, 5, 1]", "紅茶": "[紅茶, 1, 1]", "mate": "[mate, 3, 2]"}
        for name in COMPARED:
            now, wanted = newest(new[name]), newest(whole[name])
            assert len(now) > 1 and now == {key: wanted[key] for key in now}, (form, name)
        # What is taken back has the new columns of rows that the old query printed.
        assert Counter(change[2:] for change in new["calls"] if change[0] == "+") == CALLS, form


def newest(changes: list[str]) -> dict[str, str]:
    """The last row of each group, which is the first column."""
    return {change[3:].partition(",")[0]: change[2:] for change in changes if change[0] == "+"}


def _read(flink: EvolvingJob, version: str) -> str:
    """The columns of orders that the queries read, all of them from one source."""
    plan = read_plan(flink.path(f"{version}.json"))
    (node,) = [node for node in plan.nodes if "`orders`" in str(node.at("scanTableSource", "table", "identifier"))]
    return json.dumps(node.attributes["outputType"])


def test_flink_itself_does_not_restore_it(flink: EvolvingJob) -> None:
    """The operators' numbers are others."""
    feed(flink, SECOND)
    flink.do(flink.run("new", "hashmap", "untouched", flink.snapshot("canonical")))
    assert "Cannot map checkpoint/savepoint state for operator" in Path(flink.path("untouched.error")).read_text()


def test_what_only_follows_a_change_is_named_by_the_user(flink: EvolvingJob) -> None:
    """An aggregate whose filter changed: its own state is the same, of other rows."""
    mapped = {uid_of(flink, "old", "filtered"): uid_of(flink, "new", "filtered")}
    evolve(flink, "canonical", "mapped", mapped, *BEGUN)
    feed(flink, SECOND)
    flink.do(flink.run("new", "rocksdb", "mapped.out", flink.path("mapped")))
    # All rows above 0 of before, and those above 5 since.
    expected = Counter({"[tea, 5, 58.0]": 1, "[mate, 2, 103.5]": 1})
    found = table(flink.changes("old")["filtered"], flink.changes("mapped.out")["filtered"])
    assert found == expected


def test_state_that_would_be_lost_is_named(flink: EvolvingJob) -> None:
    writer = flink.writer("canonical")
    with pytest.raises(InvalidOption, match="would begin without state") as e:
        writer.evolve(flink.path("old.json"), flink.path("new.json"))
    for name in ("added", "filtered"):
        assert uid_of(flink, "new", name) in str(e.value)
    assert "--empty" in str(e.value) and "compute something else" in str(e.value)
