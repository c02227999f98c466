"""Accumulators of group and window aggregates under the names of the query, by real Flink."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.helpers.planned_states import customers, in_order, orders, planned_job

RELEASES = ("1.20", "2.3")
Rows = list[dict[str, Any]]
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
WATERMARK = max(order["ts"] for order in orders()) - timedelta(seconds=1)


def groups(rows: Iterable[dict[str, Any]], *columns: str) -> Iterable[tuple[dict[str, Any], Rows]]:
    found: dict[tuple[Any, ...], Rows] = defaultdict(list)
    for row in rows:
        found[tuple(row[name] for name in columns)].append(row)
    return ((dict(zip(columns, key, strict=True)), group) for key, group in found.items())


def total(rows: Rows, column: str = "amount") -> Any:
    return sum(row[column] for row in rows)


def different(rows: Rows, column: str) -> list[Any]:
    return sorted({row[column] for row in rows})


def group() -> Rows:
    return [
        {
            "key": key,
            "value": {
                "n": len(rows),
                "total": total(rows),
                "largest": max(row["amount"] for row in rows),
                "mean_sum": total(rows, "quantity"),
                "mean_count": len(rows),
                "ids": len(rows),
                "distinct_id": None,
            },
        }
        for key, rows in groups(orders(), "customer", "product")
    ]


def group_ids() -> Rows:
    found = groups(orders(), "customer", "product")
    return [{"key": key, "map_key": row["id"], "map_value": 1} for key, rows in found for row in rows]


def group_of_changes() -> Rows:
    return [
        {
            "key": key,
            "value": {
                "n": len(rows),
                "lowest": {"min": min(row["name"] for row in rows), "mapSize": len(rows), "map": None},
                "highest": {"max": max(row["customer"] for row in rows), "mapSize": len(rows), "map": None},
                "everyone": {"list": None, "retractList": None},
            },
        }
        for key, rows in groups(customers(), "city")
    ]


def group_functions() -> Rows:
    return [
        {
            "key": key,
            "value": {
                "names_delimiter": ",",
                "names": ",".join(row["product"] for row in rows),
                "all_ids": {"map": None},
                "ids_json": {"list": None},
                "smallest": min(row["amount"] for row in rows),
                "mean_sum": total(rows),
                "mean_count": len(rows),
            },
        }
        for key, rows in groups(orders(), "product")
    ]


def group_of_groups() -> Rows:
    spent = [key | {"n": len(rows), "spent": total(rows)} for key, rows in groups(orders(), "customer")]
    return [
        {
            "key": key,
            "value": {
                "spent": total(rows, "spent"),
                "spent_count": len(rows),
                "mean_sum": total(rows, "spent"),
                "mean_count": len(rows),
                "most": {"max": max(row["spent"] for row in rows), "mapSize": len(rows), "map": None},
                "people": len(rows),
                "row_count": len(rows),
                "distinct_customer": None,
            },
        }
        for key, rows in groups(spent, "n")
    ]


def group_all() -> Rows:
    return [{"key": {}, "value": {"n": len(orders()), "total": total(orders())}}]


def distinct_rows() -> Rows:
    return [{"key": key, "value": {}} for key, _ in groups(orders(), "product", "quantity")]


def windows(size: timedelta) -> Iterable[tuple[datetime, datetime, Rows]]:
    """Windows of orders that have not fired."""
    with_end = [order | {"end": order["ts"] - (order["ts"] - datetime.min) % size + size} for order in orders()]
    for key, rows in groups(with_end, "end"):
        if key["end"] > WATERMARK:
            yield key["end"] - size, key["end"], rows


def window(start: datetime, end: datetime, names: str = "window") -> dict[str, datetime]:
    return {f"{names}_start": start, f"{names}_end": end}


def tumble() -> Rows:
    return [
        {
            "key": key,
            "namespace": window(start, end),
            "value": {
                "total": total(rows),
                "n": len(rows),
                "people": len(different(rows, "customer")),
                "distinct_customer": None,
            },
        }
        for start, end, orders_in in windows(MINUTE)
        for key, rows in groups(orders_in, "product")
    ]


def tumble_people() -> Rows:
    return [
        {"key": key, "namespace": window(start, end), "map_key": number, "map_value": 1}
        for start, end, orders_in in windows(MINUTE)
        for key, rows in groups(orders_in, "product")
        for number in different(rows, "customer")
    ]


def tumble_totals() -> Rows:
    return [
        {"key": key, "namespace": window(start, end), "value": {"total": total(rows)}}
        for start, end, orders_in in windows(MINUTE)
        for key, rows in groups(orders_in, "product")
    ]


def hop() -> Rows:
    """Slices of a minute, of which windows of three minutes that have not fired consist."""
    with_end = [order | {"end": order["ts"] - (order["ts"] - datetime.min) % MINUTE + MINUTE} for order in orders()]
    return [
        {
            "key": {"product": key["product"]},
            "namespace": window(key["end"] - MINUTE, key["end"], "slice"),
            "value": {"largest": max(row["amount"] for row in rows), "row_count": len(rows)},
        }
        for key, rows in groups(with_end, "product", "end")
        if key["end"] + 2 * MINUTE > WATERMARK
    ]


def hour() -> Rows:
    return [
        {
            "key": key,
            "namespace": window(start, end),
            "value": {"total": total(rows), "n": len(rows)},
        }
        for start, end, orders_in in windows(HOUR)
        for key, rows in groups(orders_in, "product")
    ]


def sessions(column: str, *values: str) -> Callable[[], Rows]:
    def expected() -> Rows:
        return [
            {
                "key": key,
                "namespace": window(min(row["ts"] for row in rows), max(row["ts"] for row in rows) + HOUR),
                "value": {name: {"total": total(rows), "n": len(rows)}[name] for name in values},
            }
            for key, rows in groups(orders(), column)
        ]

    return expected


def per_customer_and_product() -> Rows:
    return [
        {"key": key, "value": {"n": len(rows), "total": total(rows)}}
        for key, rows in groups(orders(), "customer", "product")
    ]


def final_of_split() -> Rows:
    return [
        {"key": key, "value": {"sum": len(different(rows, "customer")), "sum_1": total(rows)}}
        for key, rows in groups(orders(), "product")
    ]


EXPECTED: list[tuple[str, str, str, Callable[[], Rows]]] = [
    ("plain", "group", "accState", group),
    ("plain", "group", "distinctAcc_0", group_ids),
    ("plain", "group_of_changes", "accState", group_of_changes),
    ("plain", "group_functions", "accState", group_functions),
    ("plain", "group_of_groups", "accState", group_of_groups),
    ("plain", "group_all", "accState", group_all),
    ("plain", "distinct_rows", "accState", distinct_rows),
    ("plain", "tumble", "window-aggs", tumble),
    ("plain", "tumble", "distinctAcc_0", tumble_people),
    ("plain", "hop", "window-aggs", hop),
    ("plain", "session", "window-aggs", sessions("customer", "total", "n")),
    ("plain", "group_window", "window-aggs", hour),
    ("plain", "group_session", "window-aggs", sessions("product", "total")),
    ("mini-batch", "group", "accState", per_customer_and_product),
    ("mini-batch", "split_distinct", "accState", final_of_split),
    ("mini-batch", "tumble", "window-aggs", tumble_totals),
]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    "case, query, state, expected", EXPECTED, ids=lambda item: item if isinstance(item, str) else ""
)
def test_aggregates(release: str, case: str, query: str, state: str, expected: Callable[[], Rows]) -> None:
    assert planned_job(release, case).rows(query, state) == sorted(expected(), key=in_order)


@pytest.mark.parametrize("release", RELEASES)
def test_cumulated_windows_are_slices(release: str) -> None:
    found = planned_job(release, "plain").rows("cumulate", "window-aggs")
    times = {"mate": (2, 3), "tea": (0, 1)}
    first = [row for row in found if row["namespace"]["slice_start"].minute == times[row["key"]["product"]][0]]
    assert {row["key"]["product"]: row["value"]["total"] for row in first} == {"mate": 14.0, "tea": 7.0}
