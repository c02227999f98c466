"""Keep copies of a job's states in Delta: `python -m tests.helpers.spark.live_copy DIR ROOT ROOT…`.

`DIR` has the tables and the streams' own checkpoints, so that a process goes on where one before it was killed. A line
of `DIR/batches.jsonl` describes each batch that was merged. When `DIR/finish` exists, the copies are completed, and
`DIR/rows-STATE.json` has their rows as text.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import stateproc
from tests.helpers.spark.delta_session import delta_session

STATES = ("account", "products")
FINISH = "finish"


def follow(spark: SparkSession, folder: Path, roots: list[str], state: str) -> StreamingQuery:
    """Start the stream of a state."""
    merge: Any = stateproc.merge_changes(str(folder / state))

    def merge_and_record(batch: DataFrame, number: int) -> None:
        began = time.time()
        merge(batch, number)
        line: dict[str, Any] = {"state": state, "batch": number, "began": began, "ended": time.time()}
        line["checkpoints"] = _checkpoints(folder / f"{state}-stream", number)
        with (folder / "batches.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    feed = (
        spark.readStream.format("savepoint")
        .option("readChangeFeed", "true")
        .option("roots", ",".join(roots[1:]))
        .option("uids", "accounts")
        .option("uid", "accounts")
        .option("state", state)
        .load(roots[0])
    )
    writer = feed.writeStream.foreachBatch(merge_and_record).queryName(state)
    return writer.option("checkpointLocation", str(folder / f"{state}-stream")).start()


def _checkpoints(stream: Path, batch: int) -> list[int]:
    """Return the ids of the checkpoints that a batch reads, from the stream's own log of offsets."""
    offset = json.loads((stream / "offsets" / str(batch)).read_text().splitlines()[-1])
    return [step["id"] for step in offset["steps"]]


def rows(spark: SparkSession, table: Path) -> list[str]:
    """Return the rows of a copy as text, without the columns that say when they changed."""
    frame = spark.read.format("delta").load(str(table))
    kept = frame.drop("key_group", "_commit_version", "_commit_timestamp")
    return sorted(repr(row) for row in kept.toArrow().to_pylist())


def main(folder: Path, roots: list[str]) -> None:
    """Follow the roots until `finish` appears."""
    spark = delta_session(folder)
    queries = [follow(spark, folder, roots, state) for state in STATES]
    while not (folder / FINISH).exists():
        for query in queries:
            if query.exception() is not None:
                raise SystemExit(str(query.exception()))
        time.sleep(0.2)
    for query in queries:
        query.processAllAvailable()
        query.stop()
    for state in STATES:
        (folder / f"rows-{state}.json").write_text(json.dumps(rows(spark, folder / state)), encoding="utf-8")
    progress = {query.name: [json.loads(item.json) for item in query.recentProgress] for query in queries}
    (folder / "progress.json").write_text(json.dumps(progress), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
