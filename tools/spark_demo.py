"""A savepoint of a real job, opened through Spark: values, maps, windows, timers, Kafka offsets.

Run it with ``make demo``; the job that wrote the savepoint is tests/helpers/flink/jobs/modern/fixtures/Demo.java.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

import stateproc

SAVEPOINT = str(Path(__file__).resolve().parent.parent / "tests/fixtures/1.20/demo/snapshot")
UIDS = ["orders-from-kafka", "orders-per-customer", "revenue-per-product"]

STEPS = (
    (
        "What is in there? (the catalog)",
        "SELECT uid AS operator, state, kind, key_type, value_type FROM savepoint_states",
    ),
    (
        "A POJO in value state: the best customers",
        """SELECT key AS customer, value.name, value.total, value.address.street, value.products
           FROM orders_per_customer__profile WHERE value.vip ORDER BY value.total DESC LIMIT 5""",
    ),
    (
        "One key: only its key group is read",
        "SELECT key_group, key, value.name, value.orders FROM orders_per_customer__profile WHERE key = 42",
    ),
    (
        "Map state: what was spent on what",
        """SELECT product, count(*) AS customers, sum(spent) AS spent FROM
           (SELECT explode(value) AS (product, spent) FROM orders_per_customer__spent_per_product)
           GROUP BY product ORDER BY spent DESC""",
    ),
    (
        "Window contents: revenue per product and ten minutes",
        """SELECT key AS product, timestamp_millis(namespace.start) AS window_start,
                  value.count AS orders, value.sum AS revenue
           FROM revenue_per_product__window_contents ORDER BY window_start, product LIMIT 6""",
    ),
    (
        "Timers: what fires next",
        """SELECT key AS customer, timestamp_millis(timestamp) AS fires_at, service
           FROM orders_per_customer__event_timers ORDER BY timestamp LIMIT 4""",
    ),
    (
        "Kafka splits: where reading goes on",
        """SELECT topic, partition, starting_offset, stopping_offset, subtask
           FROM orders_from_kafka__SourceReaderState ORDER BY partition""",
    ),
)


def main() -> None:
    builder = SparkSession.builder.master("local[2]").appName("stateproc demo")
    for name, value in (
        ("spark.ui.enabled", "false"),
        ("spark.sql.shuffle.partitions", "2"),
        ("spark.sql.session.timeZone", "UTC"),
        ("spark.log.level", "ERROR"),
        ("spark.ui.showConsoleProgress", "false"),
        ("spark.sql.python.filterPushdown.enabled", "true"),
    ):
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    began = time.monotonic()
    views = stateproc.attach(spark, SAVEPOINT, uids=UIDS)
    print("── Views of everything, made by stateproc.attach(spark, path)\n")
    print("   " + "\n   ".join(views.names))
    for title, sql in STEPS:
        print(f"\n── {title}\n")
        print("   " + "\n   ".join(line.strip() for line in sql.splitlines()) + "\n")
        spark.sql(sql).show(20, truncate=60)
    print(f"{len(STEPS)} questions in {time.monotonic() - began:.1f} s", file=sys.stderr)
    spark.stop()


if __name__ == "__main__":
    main()
