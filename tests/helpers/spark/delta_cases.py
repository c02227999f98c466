"""Run everything that needs Delta in one JVM, and write what it found: `python -m tests.helpers.spark.delta_cases DIR`.

Delta's jars are loaded when the JVM starts, and its start and first transactions are most of what few cases cost.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.helpers.spark.delta_copies import Copies
from tests.helpers.spark.delta_jobs import DeltaJobs
from tests.helpers.spark.delta_session import delta_session


def main(folder: Path) -> None:
    """Run all cases, those of jobs and those of copies in folders of their own."""
    spark = delta_session(folder)
    jobs, copies = DeltaJobs(spark, folder / "jobs"), Copies(spark, folder / "copies")
    cases = (jobs.bootstrap, jobs.features, copies.chain, copies.merged, copies.refused)
    found = {case.__name__: case() for case in cases}
    (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
