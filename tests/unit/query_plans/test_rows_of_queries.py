"""Rows that joins, TopN, deduplication, over aggregates and sinks keep, under the names of the query, by real Flink."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.helpers.planned_states import customers, in_order, only, orders, payments, planned_job, rates, shops

RELEASES = ("1.20", "2.3")
Rows = list[dict[str, Any]]
WATERMARK = max(order["ts"] for order in orders()) - timedelta(seconds=1)


def millis(time: datetime) -> int:
    return int((time - datetime(1970, 1, 1)) / timedelta(milliseconds=1))


def last(rows: Rows, *columns: str) -> Rows:
    """The last of the rows with equal values of some columns."""
    return list({tuple(row[name] for name in columns): row for row in rows}.values())


def customer_name(number: int) -> dict[str, Any]:
    return next(only(row, "customer", "name") for row in customers() if row["customer"] == number)


# --- joins -----------------------------------------------------------------------------------------------


def order_ids() -> Rows:
    return [{"key": only(row, "id"), "map_key": only(row, "id"), "map_value": 1} for row in orders()]


def payments_by_order() -> Rows:
    return [
        {"key": {"id": row["order_id"]}, "map_key": only(row, "order_id", "payer", "paid"), "map_value": 1}
        for row in payments()
    ]


def orders_of_customers() -> Rows:
    """Of an outer join: the record, how often it came, and with how many records of the other side it is joined."""
    return [
        {
            "key": only(row, "customer"),
            "map_key": only(row, "id", "customer"),
            "map_value": {"count": 1, "associations": 1},
        }
        for row in orders()
    ]


def customer_names() -> Rows:
    numbers = {row["customer"] for row in orders()}
    return [
        {"key": {"customer": row["customer"]}, "value": only(row, "customer", "name")}
        for row in customers()
        if row["customer"] in numbers
    ]


def in_city(rows: Rows, city: str) -> int:
    return sum(row["city"] == city for row in rows)


def customers_by_city() -> Rows:
    """The input has a unique key, which the join key does not contain."""
    return [{"key": only(row, "city"), "map_key": only(row, "customer"), "map_value": row} for row in customers()]


def shops_by_city() -> Rows:
    return [
        {"key": only(row, "city"), "map_key": only(row, "shop"), "map_value": only(row, "shop", "city")}
        for row in shops()
    ]


def customers_by_city_outer() -> Rows:
    return [
        {
            "key": only(row, "city"),
            "map_key": only(row, "customer"),
            "map_value": {"record": row, "associations": in_city(shops(), row["city"])},
        }
        for row in customers()
    ]


def customers_without_key() -> Rows:
    return [
        {
            "key": only(row, "city"),
            "map_key": only(row, "name", "city"),
            "map_value": {"count": 1, "associations": in_city(shops(), row["city"])},
        }
        for row in customers()
    ]


def shops_without_key() -> Rows:
    return [
        {
            "key": only(row, "city"),
            "map_key": only(row, "city", "title"),
            "map_value": {"count": 1, "associations": in_city(customers(), row["city"])},
        }
        for row in shops()
    ]


def paid_orders() -> Rows:
    paid = [row["order_id"] for row in payments()]
    return [
        {
            "key": only(row, "id"),
            "map_key": only(row, "id", "product"),
            "map_value": {"count": 1, "associations": paid.count(row["id"])},
        }
        for row in orders()
    ]


def hour() -> dict[str, Any]:
    start = datetime(2024, 1, 1)
    return {"window_start": start, "window_end": start + timedelta(hours=1)}


def window_join_orders() -> Rows:
    return [{"key": only(row, "id"), "namespace": hour(), "list_element": only(row, "id") | hour()} for row in orders()]


def window_join_payments() -> Rows:
    return [
        {"key": {"id": row["order_id"]}, "namespace": hour(), "list_element": only(row, "order_id", "payer") | hour()}
        for row in payments()
    ]


def waiting_order() -> Rows:
    """Orders wait for the watermark; those before it have been joined."""
    waiting = [row for row in orders() if row["ts"] > WATERMARK]
    of_product = [row for row in orders() if row["product"] == "mate"]
    return [
        {"key": only(row, "product"), "map_key": of_product.index(row), "map_value": only(row, "id", "product", "ts")}
        for row in waiting
    ]


def needed_rates() -> Rows:
    """Versions that orders after the watermark may be joined with: those before the newest before it are removed."""
    watermark = max(row["since"] for row in rates()) - timedelta(seconds=1)
    newest = last([row for row in rates() if row["since"] <= watermark], "product")
    needed = newest + [row for row in rates() if row["since"] > watermark]
    return [{"key": only(row, "product"), "map_key": millis(row["since"]), "map_value": row} for row in needed]


def late(row: dict[str, Any], seconds: int) -> bool:
    return bool(row["ts"] + timedelta(seconds=seconds) >= WATERMARK)


def interval_orders() -> Rows:
    """Orders that a payment of up to a minute later may still come for."""
    paid = [row["order_id"] for row in payments()]
    return [
        {
            "key": only(row, "id"),
            "map_key": millis(row["ts"]),
            "map_value": [{"record": only(row, "id", "ts"), "joined": row["id"] in paid}],
        }
        for row in orders()
        if late(row, 60)
    ]


def interval_payments() -> Rows:
    """Payments that an order of up to ten seconds later may still come for."""
    return [
        {
            "key": {"id": row["order_id"]},
            "map_key": millis(row["ts"]),
            "map_value": [{"record": only(row, "order_id", "payer", "ts"), "joined": False}],
        }
        for row in payments()
        if late(row, 10)
    ]


# --- rows of inputs --------------------------------------------------------------------------------------


def last_of_customers() -> Rows:
    return [
        {"key": only(row, "customer"), "value": only(row, "id", "customer", "ts")} for row in last(orders(), "customer")
    ]


def last_by_arrival() -> Rows:
    return [
        {"key": only(row, "customer", "product"), "value": only(row, "id", "customer", "product") | {"proc": None}}
        for row in last(orders(), "customer", "product")
    ]


def quantities() -> Rows:
    return [{"key": {"quantity": number}, "value": True} for number in sorted({row["quantity"] for row in orders()})]


def top_of(rows: Rows, size: int | None = None) -> Rows:
    return sorted(rows, key=lambda row: (-row["amount"], row["id"]))[:size]


def of_product(product: str) -> Rows:
    return [row for row in orders() if row["product"] == product]


def top_amounts() -> Rows:
    """The buffer is cut to the first two when a row comes that is none of them, so that more may remain."""
    kept = {"tea": top_of(of_product("tea"), 2), "mate": of_product("mate")}
    return [
        {
            "key": {"product": product},
            "map_key": only(row, "amount", "id"),
            "map_value": [only(row, "id", "product", "amount")],
        }
        for product, rows in kept.items()
        for row in rows
    ]


def top_two() -> Rows:
    return [
        {"key": {}, "map_key": only(row, "amount"), "map_value": [only(row, "id", "amount", "ts")]}
        for row in top_of(orders(), 2)
    ]


def spent() -> Rows:
    pairs = [only(row, "product", "customer") for row in last(orders(), "product", "customer")]
    return [pair | {"spent": sum(row["amount"] for row in orders() if pair.items() <= row.items())} for pair in pairs]


def spent_rows() -> Rows:
    return [{"key": only(row, "product"), "map_key": only(row, "spent"), "map_value": [row]} for row in spent()]


def spent_counts() -> Rows:
    products = sorted({row["product"] for row in spent()})
    return [
        {
            "key": {"product": product},
            "value": [
                ({"spent": amount}, 1)
                for amount in sorted((row["spent"] for row in spent() if row["product"] == product), reverse=True)
            ],
        }
        for product in products
    ]


def names_by_city() -> Rows:
    return [
        {
            "key": only(row, "city"),
            "map_key": only(row, "name"),
            "map_value": [only(row, "customer", "name", "city")],
        }
        for row in customers()
    ]


def first_three() -> Rows:
    return [{"key": {}, "map_key": {}, "map_value": [only(row, "id", "ts") for row in orders()[:3]]}]


def best() -> Rows:
    return [
        {"key": {"product": product}, "value": only(top_of(of_product(product))[0], "id", "product", "amount")}
        for product in ("tea", "mate")
    ]


def last_minute(row: dict[str, Any]) -> dict[str, Any]:
    start = row["ts"].replace(second=0)
    return {"window_start": start, "window_end": start + timedelta(minutes=1)}


def window_top() -> Rows:
    rows = [row for row in orders() if row["ts"].replace(second=0) + timedelta(minutes=1) > WATERMARK]
    return [
        {
            "key": only(row, "product"),
            "namespace": last_minute(row),
            "map_key": only(row, "amount"),
            "map_value": [only(row, "id", "product", "amount") | last_minute(row)],
        }
        for row in rows
    ]


def window_last() -> Rows:
    rows = [row for row in orders() if row["ts"].replace(second=0) + timedelta(minutes=1) > WATERMARK]
    return [
        {
            "key": only(row, "product"),
            "namespace": last_minute(row),
            "value": only(row, "id", "product", "amount", "ts") | last_minute(row),
        }
        for row in last(rows, "product")
    ]


def session_rows() -> Rows:
    found = []
    for number in sorted({row["customer"] for row in orders()}):
        rows = [row for row in orders() if row["customer"] == number]
        times = {"window_start": rows[0]["ts"], "window_end": rows[-1]["ts"] + timedelta(hours=1)}
        for index, row in enumerate(rows):
            value = only(row, "id", "customer", "ts")
            found.append({"key": {"customer": number}, "namespace": times, "map_key": index, "map_value": value})
    return found


def waiting(*columns: str) -> Callable[[], Rows]:
    """Rows after the watermark."""

    def expected() -> Rows:
        rows = [row for row in orders() if row["ts"] > WATERMARK]
        key = [columns[1]] if len(columns) > 3 else []
        return [
            {"key": only(row, *key), "map_key": millis(row["ts"]), "map_value": [only(row, *columns)]} for row in rows
        ]

    return expected


def over_rows() -> Rows:
    """Of each product the rows up to the watermark that the window of three rows contains."""
    found = []
    for product in ("tea", "mate"):
        rows = [row for row in of_product(product) if row["ts"] <= WATERMARK][-3:]
        value = {"count_amount": len(rows), "sum_amount": sum(row["amount"] for row in rows), "row_count": len(rows)}
        found.append({"key": {"product": product}, "value": value})
    return found


def over_range() -> Rows:
    """All rows of the last hour, those that wait for the watermark among them."""
    return [
        {
            "key": only(row, "product"),
            "map_key": millis(row["ts"]),
            "map_value": [only(row, "id", "product", "amount", "ts")],
        }
        for row in orders()
    ]


def increasing() -> Rows:
    found = []
    for pair in (only(row, "product", "customer") for row in last(orders(), "product", "customer")):
        if pair != {"product": "tea", "customer": 12}:  # two have as many orders of tea or more, and came first
            record = pair | {"n": sum(pair.items() <= row.items() for row in orders())}
            value = {"record": record, "inner_rank": 1}
            found.append({"key": only(pair, "product"), "map_key": pair, "map_value": value})
    return found


def over_proctime() -> Rows:
    found = []
    for number in sorted({row["customer"] for row in orders()}):
        rows = [row for row in orders() if row["customer"] == number]
        value = {"count_amount": len(rows), "sum_amount": sum(row["amount"] for row in rows)}
        found.append({"key": {"customer": number}, "value": value})
    return found


def newest_rates() -> Rows:
    return [{"key": only(row, "product"), "value": only(row, "product", "rate")} for row in last(rates(), "product")]


def materialized() -> Rows:
    return [{"key": only(row, "name"), "value": [only(row, "name", "customer", "city")]} for row in customers()]


EXPECTED: list[tuple[str, str, Callable[[], Rows]]] = [
    ("join_append", "left-records", order_ids),
    ("join_append", "right-records", payments_by_order),
    ("join_unique", "left-records", orders_of_customers),
    ("join_unique", "right-records", customer_names),
    ("join_shops", "left-records", customers_by_city),
    ("join_shops", "right-records", shops_by_city),
    ("join_shops_outer", "left-records", customers_by_city_outer),
    ("join_shops_outer", "right-records", shops_by_city),
    ("join_cities", "left-records", customers_without_key),
    ("join_cities", "right-records", shops_without_key),
    ("semi_join", "left-records", paid_orders),
    ("window_join", "left-records", window_join_orders),
    ("window_join", "right-records", window_join_payments),
    ("interval_join", "IntervalJoinLeftCache", interval_orders),
    ("interval_join", "IntervalJoinRightCache", interval_payments),
    ("temporal_join", "left", waiting_order),
    ("temporal_join", "right", needed_rates),
    ("deduplicate_last_rowtime", "deduplicate-state", last_of_customers),
    ("deduplicate_last_proctime", "deduplicate-state", last_by_arrival),
    ("deduplicate_first_proctime", "deduplicate-state", quantities),
    ("top_append", "data-state-with-append", top_amounts),
    ("top_updates", "data-state", spent_rows),
    ("top_updates", "sorted-map", spent_counts),
    ("top_changes", "data-state", names_by_city),
    ("top_increasing", "data-state-with-update", increasing),
    ("top_one", "Top1-Rank-State", best),
    ("top_all", "data-state-with-append", top_two),
    ("limit_rows", "data-state-with-append", first_three),
    ("sorted", "dataState", waiting("id", "ts", "amount")),
    ("window_top", "window_rank", window_top),
    ("window_deduplicate", "window_deduplicate", window_last),
    ("session_rows", "session-window-tvf-acc", session_rows),
    ("over_rows", "accState", over_rows),
    ("over_range", "inputState", over_range),
    ("over_unbounded", "inputState", waiting("id", "product", "amount", "ts")),
    ("over_unbounded_rows", "inputState", waiting("id", "customer", "amount", "ts")),
    ("over_proctime", "accState", over_proctime),
    ("normalized", "deduplicate-state", newest_rates),
    ("materialized", "values", materialized),
]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("query, state, expected", EXPECTED, ids=lambda item: item if isinstance(item, str) else "")
def test_rows(release: str, query: str, state: str, expected: Callable[[], Rows]) -> None:
    assert planned_job(release, "plain").rows(query, state) == sorted(expected(), key=in_order)
