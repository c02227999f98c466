"""Jobs over real Iceberg tables: `make test-pyspark PYSPARK=4.1`, because Iceberg has no runtime for 4.2 yet."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.helpers.document_runs import environment

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not pyspark.__version__.startswith("4.1."), reason="Iceberg has a runtime for Spark 4.1"),
]


def test_runs_are_identified_by_snapshots_of_the_table(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.helpers.spark.iceberg_jobs", str(tmp_path)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    first, second = found["snapshots"]
    assert (found["empty"]["status"], found["empty"]["values"]) == ("written", {})
    assert found["empty"]["version"] == {"snapshot_id": None}
    assert (found["first"]["status"], found["again"]["status"]) == ("written", "unchanged")
    assert found["first"]["values"] == {"1": "Ada", "2": "Bob"}
    assert (found["first"]["version"], found["first"]["rows"]) == ({"snapshot_id": first}, 2)
    assert (found["second"]["status"], found["second"]["version"]) == ("written", {"snapshot_id": second})
    assert found["second"]["values"] == {"1": "Ada", "2": "Bob", "3": "Cy"} == found["by_directory"]["values"]
    assert found["by_directory"]["version"] == {"snapshot_id": second}
    assert found["older"]["values"] == found["first"]["values"]
    assert all(found[name]["warnings"] == [] for name in ("empty", "first", "second", "older"))
