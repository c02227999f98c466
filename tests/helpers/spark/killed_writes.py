"""Write savepoints one after another in a Spark application that is killed (used by tests/acceptance/test_kills.py).

Run as ``python -m tests.helpers.spark.killed_writes <source> <target> …``: rescales the source to 1024 key groups. The
standard output has one line when a write begins, and one when it is complete.
"""

from __future__ import annotations

import sys

from stateproc import SavepointWriter
from tests.helpers.paths import CACHE
from tests.helpers.spark.write_faults import session


def main() -> None:
    source, *targets = sys.argv[1:]
    spark = session("local[2]", CACHE)
    for target in targets:
        print("begin", flush=True)
        writer = SavepointWriter.from_existing_savepoint(spark, source).with_max_parallelism(1024)
        writer.write(target, "overwrite")
        print("done", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
