"""Joins, deduplication and TopN keep rows, which get other columns: real Flink goes on with the changed query.

In the new version tables have more columns, at other positions, and queries read more of them. Rows of before have NULL
in the new columns, or what an expression gives; so do the rows of before in the run of the new query over all rows,
with which results are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from stateproc import SavepointWriter
from stateproc.errors import InvalidOption
from tests.helpers.flink.evolving_job import NEW_PLANNER, RELEASES, VERSIONS, EvolvingJob, Feed, script

pytestmark = pytest.mark.flink

# Table → the mode of its changes, and its columns in both versions.
TABLES: dict[str, tuple[str, str, str]] = {
    "orders": (
        "append",
        "id BIGINT, customer BIGINT, product STRING, amount DOUBLE",
        "note STRING, id BIGINT, product STRING, customer BIGINT, discount DOUBLE NOT NULL, amount DOUBLE",
    ),
    "payments": ("append", "order_id BIGINT, payer STRING", "order_id BIGINT, paid DOUBLE, payer STRING"),
    "customers": (
        "upsert",
        "customer BIGINT, name STRING, city STRING, PRIMARY KEY (customer) NOT ENFORCED",
        "phone STRING, customer BIGINT, city STRING, name STRING, PRIMARY KEY (customer) NOT ENFORCED",
    ),
    "shops": (
        "upsert",
        "shop BIGINT, city STRING, title STRING, PRIMARY KEY (shop) NOT ENFORCED",
        "shop BIGINT, title STRING, city STRING, since BIGINT, PRIMARY KEY (shop) NOT ENFORCED",
    ),
    "offers": (
        "append",
        "product STRING, id BIGINT, amount DOUBLE",
        "id BIGINT, weights ARRAY<INT>, product STRING, note STRING, amount DOUBLE",
    ),
    "visits": (
        "append",
        "customer BIGINT, id BIGINT, proc AS PROCTIME()",
        "page STRING, customer BIGINT, id BIGINT, proc AS PROCTIME()",
    ),
}  # fmt: skip
NUMBERED = "SELECT {}, ROW_NUMBER() OVER (PARTITION BY {} DESC) AS r FROM {}"


def numbered(columns: str, by: str, source: str, last: int) -> str:
    return f"SELECT {columns} FROM ({NUMBERED.format(columns, by, source)}) WHERE r <= {last}"


PAID = "orders AS o JOIN payments AS p ON o.id = p.order_id"
NAMED = "orders AS o LEFT JOIN customers AS c ON o.customer = c.customer"
LOCAL = "customers AS c {} JOIN shops AS s ON c.city = s.city"
ANY = "customers AS c FULL JOIN orders AS o ON c.customer = o.customer AND o.amount > 1"
WHERE = "FROM orders AS o WHERE id {}IN (SELECT order_id FROM payments)"
PAIRS = "orders AS o FULL JOIN payments AS p ON o.id = p.order_id"
# Sink → its columns in both versions, and both queries.
QUERIES: dict[str, tuple[str, str, str, str]] = {
    # No side has a unique key: rows are keys of maps, with their numbers.
    "paid": (
        "id BIGINT, payer STRING",
        "id BIGINT, payer STRING, note STRING, paid DOUBLE",
        f"SELECT id, payer FROM {PAID}",
        f"SELECT id, payer, note, paid FROM {PAID}",
    ),
    "pairs": (
        "id BIGINT, payer STRING",
        "payer STRING, note STRING, id BIGINT",
        f"SELECT id, payer FROM {PAIRS}",
        f"SELECT payer, note, id FROM {PAIRS}",
    ),
    "in": (
        "id BIGINT",
        "id BIGINT, note STRING",
        f"SELECT id {WHERE.format('')}",
        f"SELECT id, note {WHERE.format('')}",
    ),
    "not_in": (
        "id BIGINT, n DOUBLE",
        "id BIGINT, n DOUBLE, note STRING",
        f"SELECT id, amount {WHERE.format('NOT ')} AND id IS NOT NULL",
        f"SELECT id, amount, note {WHERE.format('NOT ')} AND id IS NOT NULL",
    ),
    # The key of the join is a unique one of the right side.
    "named": (
        "id BIGINT, amount DOUBLE, name STRING",
        "id BIGINT, amount DOUBLE, name STRING, phone STRING, discount DOUBLE",
        f"SELECT id, amount, name FROM {NAMED}",
        f"SELECT id, amount, name, phone, discount FROM {NAMED}",
    ),
    # Both sides have a unique key that is not the join's: rows are values of maps, of outer ones with their numbers.
    "local": (
        "customer BIGINT, shop BIGINT, title STRING",
        "phone STRING, customer BIGINT, shop BIGINT, since BIGINT",
        f"SELECT customer, shop, title FROM {LOCAL.format('')}",
        f"SELECT phone, customer, shop, since FROM {LOCAL.format('')}",
    ),
    "outer": (
        "customer BIGINT, shop BIGINT",
        "customer BIGINT, shop BIGINT, since BIGINT, phone STRING",
        f"SELECT customer, shop FROM {LOCAL.format('LEFT')}",
        f"SELECT customer, shop, since, phone FROM {LOCAL.format('LEFT')}",
    ),
    "any": (
        "name STRING, amount DOUBLE",
        "name STRING, amount DOUBLE, phone STRING, note STRING",
        f"SELECT name, amount FROM {ANY}",
        f"SELECT name, amount, phone, note FROM {ANY}",
    ),
    "top": (
        "product STRING, id BIGINT, amount DOUBLE",
        "product STRING, id BIGINT, amount DOUBLE, note STRING, weights ARRAY<INT>",
        numbered("product, id, amount", "product ORDER BY amount", "offers", 2),
        numbered("product, id, amount, note, weights", "product ORDER BY amount", "offers", 2),
    ),
    "first": (
        "product STRING, id BIGINT, amount DOUBLE",
        "product STRING, id BIGINT, amount DOUBLE, note STRING",
        numbered("product, id, amount", "product ORDER BY amount", "offers", 1),
        numbered("product, id, amount, note", "product ORDER BY amount", "offers", 1),
    ),
    # Of rows that change: all of them are kept, by their sort key.
    "ranked": (
        "city STRING, customer BIGINT, name STRING",
        "city STRING, customer BIGINT, name STRING, phone STRING",
        numbered("city, customer, name", "city ORDER BY name", "customers", 2),
        numbered("city, customer, name, phone", "city ORDER BY name", "customers", 2),
    ),
    "last": (
        "customer BIGINT, id BIGINT",
        "customer BIGINT, id BIGINT, page STRING",
        "SELECT customer, id FROM (SELECT customer, id, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY proc DESC) "
        "AS r FROM visits) WHERE r = 1",
        "SELECT customer, id, page FROM (SELECT customer, id, page, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY "
        "proc DESC) AS r FROM visits) WHERE r = 1",
    ),
}  # fmt: skip
Rows = dict[str, list[dict[str, object]]]


def of(names: str, *rows: Sequence[object]) -> list[dict[str, object]]:
    return [dict(zip(names.split(), row, strict=True)) for row in rows]


ORDER, OFFER = "id customer product amount note discount", "product id amount note weights"
FIRST: Rows = {
    "orders": of(ORDER, *(
        (*row, None, (row[3] or 0) / 10) for row in (
            (1, 1, "tea", 10.0), (2, 1, "mate", 4.5), (2, 1, "mate", 4.5), (3, 2, "tea", 20.0), (4, None, None, -1.0),
            (5, 7, "茶\0🍵", 0.0),
        )
    )),
    "payments": of("order_id payer paid", (1, "card", None), (3, "cash", None), (3, "cash", None), (8, "card", None)),
    "customers": of(
        "customer name city phone", (1, "Ann", "Rome", None), (2, "Bob", "Oslo", None), (9, "Zoë", None, None)
    ),
    "shops": of("shop city title since", (1, "Rome", "Uno", None), (2, "Rome", "Due", None), (3, None, "?", None)),
    "offers": of(OFFER, *(
        (*row, None, None) for row in (("tea", 1, 2.0), ("tea", 2, 3.0), ("tea", 3, 1.0), (None, 4, -0.0))
    )),
    "visits": of("customer id page", (1, 1, None), (1, 2, None), (2, 3, None), (None, 4, None)),
}  # fmt: skip
SECOND: Rows = {
    "orders": of(
        ORDER, (6, 1, "tea", 15.0, "n6", 0.5), (8, 3, "tea", 1.5, "n8", 0.25), (2, 1, "mate", 4.5, "n2", 0.0),
        (9, 9, None, 2.0, "", 1.0),
    ),
    "payments": of("order_id payer paid", (2, "card", 4.5), (6, "cash", 15.0), (5, "card", 0.0)),
    "customers": of(
        "customer name city phone", (3, "Cid", "Rome", "333"), (2, "Bea", "Rome", "222"), (7, "Dee", "Oslo", "777")
    ),
    "shops": of("shop city title since", (4, "Oslo", "Fire", 20240229), (2, "Oslo", "Due", 0)),
    "offers": of(OFFER, ("tea", 5, 2.5, "n5", None), ("tea", 6, 9.0, "n6", None), (None, 7, 1.0, "n7", None)),
    "visits": of("customer id page", (2, 8, "/b"), (3, 10, "/c")),
}  # fmt: skip


def feed(job: EvolvingJob, version: int, *parts: Rows) -> None:
    """Write the rows as a version of the tables has them; joined tables are read one after the other."""
    rows = {}
    for name, (_, *columns) in TABLES.items():
        names = [column.split()[0] for column in _columns(columns[version])]
        rows[name] = [[row[one] for one in names] for part in parts for row in part[name]]
    job.feed(rows, later=["orders", "shops"])


def _columns(text: str) -> list[str]:
    parts = [part.strip() for part in text.split(", ")]
    return [part for part in parts if not part.startswith("PRIMARY") and " AS " not in part]


def scripts(folder: Path) -> list[str]:
    found = []
    for version in range(len(VERSIONS)):
        feeds: dict[str, Feed] = {name: (one[1 + version], one[0]) for name, one in TABLES.items()}
        found.append(script(folder, feeds, {name: (one[version], one[2 + version]) for name, one in QUERIES.items()}))
    return found


@pytest.fixture(scope="module", params=NEW_PLANNER)
def flink(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EvolvingJob]:
    """The old query has seen the first rows; `before` and `all` are what the new one gives for these and for all."""
    folder = tmp_path_factory.mktemp("rows")
    made = EvolvingJob(RELEASES[request.param], folder, scripts(folder))
    made.begin(feed, FIRST, SECOND)
    yield made


def test_kept_rows_get_other_columns(flink: EvolvingJob) -> None:
    def evolve(writer: SavepointWriter) -> None:
        discount = f"{flink.uid_of('new', 'named', 'join')}.left.discount"
        writer.evolve(flink.path("old.json"), flink.path("new.json"), fill={discount: "amount / 10"})
        plan = str(writer.plan())
        assert "discount = amount / 10 in rows from before" in plan and "title dropped" in plan, plan

    flink.go_on(feed, SECOND, evolve)
    flink.check(QUERIES)


def test_a_column_that_is_never_null_needs_a_value(flink: EvolvingJob) -> None:
    uid = flink.uid_of("new", "named", "join")
    with pytest.raises(InvalidOption, match="keeps rows that get the column discount") as e:
        flink.writer("canonical").evolve(flink.path("old.json"), flink.path("new.json"))
    assert f"--fill '{uid}.left.discount=EXPRESSION'" in str(e.value)
