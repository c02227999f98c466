"""TopN of other ranks, of each strategy and between them: real Flink goes on with the rows that its state has.

What the new query prints after the restore, with what it prints of the first rows alone, is what it prints of all rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from stateproc import SavepointWriter
from stateproc.query_plans.plan_file import read_plan
from stateproc.query_plans.rank_order import (
    ADDED_ROWS,
    ALL_ROWS,
    FIRST_ROW,
    NUMBER_OF_ROWS,
    REPLACED_ROWS,
    rows_state,
)
from tests.helpers.flink.evolving_job import RELEASES, VERSIONS, EvolvingJob, Feed, script

pytestmark = pytest.mark.flink

TABLES: dict[str, Feed] = {
    "orders": ("id BIGINT, customer BIGINT, note STRING, amount DECIMAL(30, 2), proc AS PROCTIME()", "append"),
    "customers": ("customer BIGINT, name STRING, city STRING, PRIMARY KEY (customer) NOT ENFORCED", "upsert"),
}
RANKED = "id BIGINT, customer BIGINT, r BIGINT"
NUMBER = "ROW_NUMBER() OVER (PARTITION BY {} ORDER BY {}) AS r"
ADDED = (
    f"SELECT id, customer, {{}} FROM (SELECT *, {NUMBER.format('customer', '{}')} FROM orders WHERE id > -{{}}) "
    "WHERE r <= {}"
)
COUNTED = "(SELECT customer, note, COUNT(*) AS n, MAX(id) AS id FROM orders WHERE id > -{} GROUP BY customer, note)"
REPLACED = (
    f"SELECT id, customer, {{}} FROM (SELECT *, {NUMBER.format('customer', 'n DESC')} FROM {COUNTED}) WHERE r <= {{}}"
)
LIMITED = "SELECT {} FROM {} WHERE {} > -{} {}LIMIT {} OFFSET {}"
NO_RANK = "CAST(NULL AS BIGINT)"
BY_ID, BY_NAME = "ORDER BY amount DESC, id ", "ORDER BY city, name "
Query = tuple[str, str, str]


def added(number: int, by: str, old: tuple[str, int], new: tuple[str, int]) -> Query:
    return RANKED, *(ADDED.format(shown, by, number, last) for shown, last in (old, new))


def replaced(number: int, old: tuple[str, int], new: tuple[str, int]) -> Query:
    return RANKED, *(REPLACED.format(shown, number, last) for shown, last in (old, new))


def limited(number: int, by: str, old: tuple[int, int], new: tuple[int, int]) -> Query:
    columns = "CAST(amount AS DECIMAL(38, 2)), id"
    return (
        "amount DECIMAL(38, 2), id BIGINT",
        *(LIMITED.format(columns, "orders", "id", number, by, *limits) for limits in (old, new)),
    )


def limited_all(number: int, old: tuple[int, int], new: tuple[int, int]) -> Query:
    columns = "name STRING, city STRING"
    query = [LIMITED.format("name, city", "customers", "customer", number, BY_NAME, *limits) for limits in (old, new)]
    return columns, *query


QUERIES: dict[str, Query] = {
    # Only added: the first alone, in each order, and by a type without an order in Arrow's ranks.
    "first": added(10, "note DESC", (NO_RANK, 3), (NO_RANK, 1)),
    "first_of_ties": added(11, "CHAR_LENGTH(note) DESC NULLS LAST", (NO_RANK, 4), (NO_RANK, 1)),
    "first_shown": added(12, "amount, id > 4", ("r", 3), (NO_RANK, 1)),
    # With other columns: none that orders rows is among those that go.
    "first_of_less": (
        "customer BIGINT, note STRING",
        *(
            f"SELECT customer, note FROM (SELECT {columns}, {NUMBER.format('customer', 'note')} FROM orders "
            f"WHERE id > -13) WHERE r <= {last}"
            for columns, last in (("id, customer, note, amount", 3), ("note, customer", 1))
        ),
    ),
    # By processing time their number is all that is kept.
    "early": added(14, "proc", (NO_RANK, 3), (NO_RANK, 2)),
    "early_shown": added(15, "proc", (NO_RANK, 3), ("r", 2)),
    # Replaced by their key.
    "fewer": replaced(20, (NO_RANK, 3), (NO_RANK, 2)),
    "fewer_shown": replaced(21, ("r", 3), ("r", 2)),
    "shown": replaced(22, (NO_RANK, 3), ("r", 3)),
    "hidden": replaced(23, ("r", 2), (NO_RANK, 2)),
    "most": replaced(24, (NO_RANK, 3), (NO_RANK, 1)),
    "most_shown": replaced(25, ("r", 2), (NO_RANK, 1)),
    "fewer_columns": (
        "n BIGINT, customer BIGINT",
        *(
            f"SELECT n, customer FROM (SELECT {columns}, {NUMBER.format('customer', 'n DESC')} FROM (SELECT customer, "
            f"note, COUNT(*) AS n, MAX(id) AS id FROM orders WHERE id > -26 GROUP BY customer, note)) WHERE r <= {last}"
            for columns, last in (("customer, note, n, id", 3), ("note, n, customer", 2))
        ),
    ),
    # LIMIT and OFFSET, over rows that are only added, and over such that are taken back; with OFFSET Flink does not
    # find these again (RetractableTopNFunction), so that only what follows from the state is shown.
    "limit": limited(30, BY_ID, (4, 0), (2, 1)),
    "limit_1": limited(31, BY_ID, (4, 0), (1, 0)),
    "no_offset": limited(32, BY_ID, (3, 2), (4, 0)),
    "other_offset": limited(33, BY_ID, (3, 2), (2, 3)),
    "any": limited(34, "", (20, 0), (18, 0)),
    "more": limited_all(36, (2, 1), (5, 0)),
}  # fmt: skip
# The same counts go to a query that asks for what is replaced: TopN then keeps all rows, and else those of its ranks.
SHARED = "SET 'table.optimizer.reuse-optimize-block-with-digest-enabled' = 'true';\n"
ONCE = "SELECT n, COUNT(*) FROM {} GROUP BY n"
KEPT: dict[str, Query] = {
    "as_replaced": replaced(40, (NO_RANK, 3), (NO_RANK, 3)),
    "as_fewer": replaced(41, (NO_RANK, 3), ("r", 2)),
    "as_more": replaced(42, ("r", 2), (NO_RANK, 4)),
    "as_first": replaced(43, (NO_RANK, 2), (NO_RANK, 1)),
}
Rows = dict[str, list[Sequence[object]]]
FIRST: Rows = {
    "orders": [
        (1, 1, "a", "1.50"), (2, 1, "", "-2"), (3, 2, None, "7"), (4, None, "d", None), (5, 7, "\0🍵", "9"),
        (6, 2, "e", "12345678901234567890.25"), (7, 1, "b", "0"), (8, 1, "é", "7"), (9, 1, None, "7"),
        (10, 2, "🍵", "-12345678901234567890.25"), (11, 2, "zz", "3"), (12, 1, "b", "4"), (13, 1, "b", "4"),
        (14, 1, "a", "4"), (15, 2, "zz", None), (16, 1, "c", "2"),
    ],
    "customers": [
        (1, "Ann", "Rome"), (2, "Bob", "Oslo"), (9, "Zoë", None), (5, "Eve", "Rome"), (8, "Gil", "Rome"),
        (4, "Dan", "Rome"), (6, "Fay", "Nice"),
    ],
}  # fmt: skip
SECOND: Rows = {
    "orders": [
        (17, 1, "zzz", "7.5"), (18, 3, "n8", "1"), (19, 1, "", "-1"), (20, None, "dd", "3"), (21, 2, "z", "8"),
        (22, 7, "", "1"), (23, 2, "e", "99999999999999999999.5"), (24, 1, "c", "2"), (25, 1, "c", "2"),
        (26, 1, "c", "6"), (27, 2, "e", "5"), (28, 7, "", None), (29, None, "c", "1"), (30, 7, "", "2"),
    ],
    "customers": [(3, "Cid", "Bari"), (2, "Bea", "Rome"), (7, "Dee", "Oslo"), (6, "Fay", "Bari")],
}  # fmt: skip
DELETED: Rows = {"customers": [(1, "Ann", "Rome")]}


def feed(job: EvolvingJob, version: int, *parts: Rows) -> None:
    rows = {name: [row for part in parts for row in part[name]] for name in TABLES}
    job.feed(rows, deleted=DELETED if parts[-1] is SECOND else {})


def text(folder: Path, version: int) -> str:
    queries = {name: (one[0], one[1 + version]) for name, one in (QUERIES | KEPT).items()}
    if not version:
        for number, name in enumerate(KEPT, 40):
            queries[f"{name}_numbers"] = "n BIGINT, m BIGINT", ONCE.format(COUNTED.format(number))
    return SHARED + script(folder, TABLES, queries)


@pytest.fixture(scope="module", params=RELEASES)
def flink(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EvolvingJob]:
    folder = tmp_path_factory.mktemp("ranks")
    made = EvolvingJob(RELEASES[request.param], folder, [text(folder, version) for version in range(len(VERSIONS))])
    made.begin(feed, FIRST, SECOND)
    yield made


def states(job: EvolvingJob) -> Mapping[str, tuple[str, ...]]:
    """Of each query the states that TopN has in both versions."""
    found = {}
    for name in QUERIES | KEPT:
        kinds = []
        for version in VERSIONS:
            plan = read_plan(job.path(f"{version}.json"))
            node = next(one for one in plan.nodes if f"`{name}_out`" in json.dumps(one.at("dynamicTableSink")))
            while "rankStrategy" not in node.attributes:
                node = node.sources[0]
            kinds.append(rows_state(node))
        found[name] = tuple(kinds)
    return found


def test_results_are_those_of_the_new_query(flink: EvolvingJob) -> None:
    def evolve(writer: SavepointWriter) -> None:
        writer.evolve(flink.path("old.json"), flink.path("new.json"), emitted="keep")
        plan = str(writer.plan())
        assert "the first 3 → the first 1 (rows of the ranks 2 to 3 stay emitted)" in plan, plan
        assert "the ranks 3 to 5 → the first 4 (rows of the ranks 1 to 2 were not emitted, rows of rank 5 stay" in plan

    # All strategies, and what they become; the same in each release.
    kinds = set(states(flink).values())
    assert kinds == {
        (ADDED_ROWS, ADDED_ROWS), (ADDED_ROWS, FIRST_ROW), (NUMBER_OF_ROWS, NUMBER_OF_ROWS),
        (REPLACED_ROWS, REPLACED_ROWS), (REPLACED_ROWS, FIRST_ROW),
        (ALL_ROWS, ALL_ROWS), (ALL_ROWS, REPLACED_ROWS), (ALL_ROWS, FIRST_ROW),
    }  # fmt: skip
    flink.go_on(feed, SECOND, evolve)
    flink.check(QUERIES | KEPT)
