"""A SQL job goes on with a changed query: real Flink runs the old plan, restores the new one, and results are equal.

One job has all queries. In its next version some are as they were, under other numbers, some are gone or new, and some
changed: those begin with the restore.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from stateproc import SavepointWriter
from stateproc.errors import InvalidOption
from stateproc.query_plans.plan_file import read_plan
from stateproc.query_plans.plan_matching import main_uid
from tests.helpers.flink.compilation import JAVA, JOBS, compiled, core_folders
from tests.helpers.quick_java import QUICK_JAVA

pytestmark = pytest.mark.flink

RELEASES = {"1.20": ("1.20", "1.20"), "2.3": ("2.3", "2.3"), "1.20 to 2.3": ("1.20", "2.3")}
"""The releases that run the old and the new query."""
# Where a savepoint comes from, and the backend that restores it.
SOURCES = {"canonical": "hashmap", "native": "rocksdb"}

ORDERS = "CREATE TABLE orders (note STRING, id BIGINT, customer BIGINT, product STRING, amount DOUBLE)"
# Of what ROW_NUMBER numbers, the planner reads all columns: in a table of its own.
OFFERS = "CREATE TABLE offers (product STRING, id BIGINT, amount DOUBLE)"
VISITS = "CREATE TABLE visits (customer BIGINT, id BIGINT, proc AS PROCTIME())"
NAMES = "CREATE TABLE customers (customer BIGINT, name STRING, PRIMARY KEY (customer) NOT ENFORCED)"
FEEDS = {
    "orders": (ORDERS, "append"),
    "offers": (OFFERS, "append"),
    "visits": (VISITS, "append"),
    "customers": (NAMES, "upsert"),
}

NUMBER = "ROW_NUMBER() OVER (PARTITION BY {} DESC) AS r"
JOINED = "SELECT id, name FROM orders AS o LEFT JOIN customers AS c ON o.customer = c.customer"
RANKED = f"SELECT id, product, amount, {NUMBER.format('product ORDER BY amount')} FROM offers"
TOP = f"SELECT product, id, amount FROM ({RANKED}) WHERE r <= 2"
NEWEST = f"SELECT customer, id, {NUMBER.format('customer ORDER BY proc')} FROM visits"
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
    "changed": (
        "customer BIGINT, a DOUBLE, b DOUBLE",
        "SELECT customer, MIN(amount), SUM(amount) FROM orders GROUP BY customer",
        "SELECT customer, MIN(amount), MAX(amount) FROM orders GROUP BY customer",
    ),
}
CONTINUED = ("totals", "joined", "top", "nested", "last")
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
}  # fmt: skip
SECOND: Rows = {
    "orders": [
        (6, 1, "tea", 15.0), (7, 3, "紅茶", 1.5), (8, 2, "mate", 4.5), (9, None, "tea", 6.0), (10, 3, "mate", 99.0)
    ],
    "customers": [(3, "Cid"), (2, "Bea")],
    "visits": [(2, 8), (3, 10)],
}  # fmt: skip


for part in (FIRST, SECOND):
    part["offers"] = [(product, number, amount) for number, _, product, amount in part["orders"]]


class Flink:
    """Scripts, plans and runs of the job, in one folder."""

    def __init__(self, releases: tuple[str, str], folder: Path) -> None:
        self.releases, self.folder, self._runs = releases, folder, 0
        for number, version in enumerate(("old", "new"), 1):
            (folder / f"{version}.sql").write_text(script(folder, number), encoding="utf-8")

    @property
    def moves(self) -> bool:
        """Whether the new query runs with another release."""
        return len(set(self.releases)) > 1

    def do(self, *lines: tuple[str, ...], version: str = "new") -> None:
        """Run lines of planned.Evolving in one JVM, of the release of a version of the query."""
        release = self.releases[version == "new"]
        classes = compiled(release, "fixtures", [*core_folders(release), JOBS / "planned"])
        path = os.pathsep.join([str(JOBS / "planned"), classes])
        file = self.folder / f"lines-{self._runs}"
        self._runs += 1
        file.write_text("".join("\t".join(line) + "\n" for line in lines))
        command = [*JAVA, *QUICK_JAVA, "-cp", path, "planned.Evolving", str(file)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-4000:]

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def compile(self, version: str) -> tuple[str, ...]:
        return "compile", self.path(f"{version}.sql"), self.path(f"{version}.json")

    def run(self, version: str, backend: str, out: str, savepoint: str = "-", taken: str = "-") -> tuple[str, ...]:
        places = (self.path(f"{version}.json"), self.path(f"{version}.sql"), backend, self.path(out), savepoint, taken)
        return "run", *places

    def rows(self, *parts: Rows) -> None:
        """Write what the sources will emit."""
        for name in FEEDS:
            rows = [row for part in parts for row in part[name]]
            if name == "orders":
                rows = [(f"n{row[0]}", *row) for row in rows]
            lines = ["\t".join(["+I", *map(_text, row)]) for row in rows]
            # One source is read before the other, so that results are always the same.
            (self.folder / name).write_text("\n".join(["wait"] * (name == "orders") + lines) + "\n", encoding="utf-8")

    def changes(self, out: str) -> dict[str, list[str]]:
        """What each sink printed."""
        error = self.folder / f"{out}.error"
        assert not error.exists(), error.read_text()
        found: dict[str, list[str]] = {}
        for line in (self.folder / out).read_text(encoding="utf-8").splitlines():
            name, _, change = line.partition("> ")
            found.setdefault(name, []).append(change)
        return found


def _text(value: object) -> str:
    return "\\N" if value is None else str(value)


def script(folder: Path, version: int) -> str:
    """The statements of the job, in its first or its next version."""
    statements = [
        f"{columns} WITH ('connector' = 'rows', 'picked' = 'true', 'path' = '{folder / name}', "
        f"'changelog' = '{changelog}')"
        for name, (columns, changelog) in FEEDS.items()
    ]
    for name, query in QUERIES.items():
        if query[version] is not None:
            statements.append(
                f"CREATE TABLE {name}_out ({query[0]}) WITH ('connector' = 'print', 'print-identifier' = '{name}')"
            )
    statements += [f"INSERT INTO {name}_out {query[version]}" for name, query in QUERIES.items() if query[version]]
    return "".join(f"{statement};\n" for statement in statements)


def table(*changes: list[str]) -> Counter[str]:
    """The rows that are there after changes."""
    found: Counter[str] = Counter()
    for change in (change for part in changes for change in part):
        found[change[2:]] += 1 if change[0] == "+" else -1
    return +found


@pytest.fixture(scope="module", params=RELEASES)
def flink(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flink]:
    """The old query has seen the first rows; `all` are the results of the new one over all rows."""
    made = Flink(RELEASES[request.param], tmp_path_factory.mktemp("evolved"))
    made.rows(FIRST)
    made.do(made.compile("old"), made.run("old", "rocksdb", "old", taken=made.path("taken")), version="old")
    made.rows(FIRST, SECOND)
    made.do(made.compile("new"), made.run("new", "hashmap", "all"))
    yield made


def uid_of(flink: Flink, version: str, name: str) -> str:
    """The uid of the operator before the sink of a query that holds state."""
    plan = read_plan(flink.path(f"{version}.json"))
    (node,) = [one for one in plan.nodes if f"`{name}_out`" in str(one.at("dynamicTableSink", "table", "identifier"))]
    while node.kind not in ("stream-exec-group-aggregate", "stream-exec-deduplicate"):
        (node,) = node.sources
    return main_uid(plan, node)


def evolve(flink: Flink, form: str, target: str, mapped: dict[str, str], *empty: str) -> str:
    """Write a savepoint of the new query; return the plan."""
    writer = SavepointWriter.from_existing_savepoint(None, snapshot(flink, form))
    if flink.moves:
        # The planner of Flink 2 says more about deduplication.
        writer.with_flink_version(flink.releases[1])
        empty = (*empty, "last")
    uids = [uid_of(flink, "new", name) for name in empty]
    plans = flink.path("old.json"), flink.path("new.json")
    writer.evolve(*plans, mapped=mapped, empty=uids, new_aggregates="empty")
    plan = str(writer.plan())
    writer.write(flink.path(target))
    return plan


def snapshot(flink: Flink, form: str) -> str:
    return Path(flink.path(f"old.{form}")).read_text().strip()


def test_the_new_query_goes_on(flink: Flink) -> None:
    assert "`note`" not in _read(flink, "old") and "`note`" in _read(flink, "new")
    for form in SOURCES:
        plan = evolve(flink, form, f"evolved-{form}", {}, *BEGUN, "filtered")
        assert "note: kept: Rank[" in plan and "note: dropped: GroupAggregate[" in plan
        assert "AVG(amount) kept, COUNT(*) kept, SUM(amount) kept, MAX(id) from now on, AVG($" in plan
        assert "MIN(id) dropped" in plan
        assert f"({uid_of(flink, 'new', 'added')}), its results begin with the restore" in plan
    flink.rows(SECOND)
    flink.do(*(
        flink.run("new", backend, f"new-{form}", flink.path(f"evolved-{form}")) for form, backend in SOURCES.items()
    ))  # fmt: skip
    old, whole = flink.changes("old"), flink.changes("all")
    for form in SOURCES:
        new = flink.changes(f"new-{form}")
        for name in CONTINUED[: len(CONTINUED) - flink.moves]:
            assert table(old[name], new[name]) == table(whole[name]), (form, name)
        # From the restore on: what a query that begins with the second rows gives.
        assert table(new["added"]) == Counter({"[tea, 2, n6]": 1, "[紅茶, 1, n7]": 1, "[mate, 2, n10]": 1})
        assert table(new["filtered"]) == Counter({"[tea, 2, 21.0]": 1, "[mate, 1, 99.0]": 1})
        assert "gone" not in new
        changed = Counter({"[1, 15.0, 15.0]": 1, "[2, 4.5, 4.5]": 1, "[3, 1.5, 99.0]": 1, "[null, 6.0, 6.0]": 1})
        assert table(new["changed"]) == changed
        # What is taken back has the new columns of rows that the old query printed.
        assert Counter(change[2:] for change in new["calls"] if change[0] == "+") == CALLS, form


def _read(flink: Flink, version: str) -> str:
    """The columns of orders that the queries read, all of them from one source."""
    plan = read_plan(flink.path(f"{version}.json"))
    (node,) = [node for node in plan.nodes if "`orders`" in str(node.at("scanTableSource", "table", "identifier"))]
    return json.dumps(node.attributes["outputType"])


def test_flink_itself_does_not_restore_it(flink: Flink) -> None:
    """The operators' numbers are others."""
    flink.rows(SECOND)
    flink.do(flink.run("new", "hashmap", "untouched", snapshot(flink, "canonical")))
    assert "Cannot map checkpoint/savepoint state for operator" in Path(flink.path("untouched.error")).read_text()


def test_what_only_follows_a_change_is_named_by_the_user(flink: Flink) -> None:
    """An aggregate whose filter changed: its own state is the same, of other rows."""
    mapped = {uid_of(flink, "old", "filtered"): uid_of(flink, "new", "filtered")}
    evolve(flink, "canonical", "mapped", mapped, *BEGUN)
    flink.rows(SECOND)
    flink.do(flink.run("new", "rocksdb", "mapped.out", flink.path("mapped")))
    # All rows above 0 of before, and those above 5 since.
    expected = Counter({"[tea, 5, 58.0]": 1, "[mate, 2, 103.5]": 1})
    found = table(flink.changes("old")["filtered"], flink.changes("mapped.out")["filtered"])
    assert found == expected


def test_state_that_would_be_lost_is_named(flink: Flink) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, snapshot(flink, "canonical"))
    with pytest.raises(InvalidOption, match="would begin without state") as e:
        writer.evolve(flink.path("old.json"), flink.path("new.json"))
    for name in ("added", "filtered"):
        assert uid_of(flink, "new", name) in str(e.value)
    assert "--empty" in str(e.value) and "compute something else" in str(e.value)
