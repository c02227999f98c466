"""Measure `fill` and `evolve` of a GROUP BY that gets one more aggregate: python -m benchmarks.changed_query [GROUPS].

Groups of COUNT and SUM are filled from rows by the plan of a fixture; then the command carries them over to the same
query with MAX. Each is a process of its own, start-up included.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.__main__ import ROOT
from benchmarks.many_files import measured
from stateproc import OperatorBootstrap, SavepointWriter

_PLAN = ROOT / "tests" / "fixtures" / "1.20" / "plan-plain.tar.xz"
_NODE, _UID = 40, "40_group-aggregate"
_RUNS = 3


def plans() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the compiled plan, and that of the query with one aggregate more."""
    with tarfile.open(_PLAN) as archive:
        data = archive.extractfile("plan-plain/plan.json")
        assert data is not None
        text = data.read()
    old, new = json.loads(text), json.loads(text)
    (node,) = (node for node in new["nodes"] if node["id"] == _NODE)
    node["aggCalls"].append(node["aggCalls"][1] | {"name": "most", "internalName": "$MAX$1"})
    node["aggCallNeedRetractions"].append(False)
    node["outputType"] = node["outputType"].removesuffix(">") + ", `most` DOUBLE>"
    return old, new


def fill(groups: int, folder: Path) -> None:
    """Write the savepoint."""
    numbers = np.arange(groups)
    rows = pa.table({"customer": numbers, "n": numbers % 7 + 1, "spent": numbers / 4})
    filled = OperatorBootstrap.from_plan(folder / "old.json", _UID, rows)
    SavepointWriter.new_savepoint(None).with_operator(_UID, filled).with_parallelism(_UID, 2).write(folder / "first")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", type=int, nargs="?", default=5_000_000)
    parser.add_argument("--folder", type=Path, help="where there is space")
    parser.add_argument("--step", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        begin = time.perf_counter()
        fill(given.groups, given.folder)
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"seconds": time.perf_counter() - begin, "megabytes": megabytes}))
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as temporary:
        folder = Path(temporary)
        for name, plan in zip(("old", "new"), plans(), strict=True):
            (folder / f"{name}.json").write_text(json.dumps(plan))
        step = [sys.executable, "-m", "benchmarks.changed_query", "--step", "--folder", str(folder), str(given.groups)]
        done = subprocess.run(step, check=True, capture_output=True, text=True, cwd=ROOT)
        _say("fill", given.groups, json.loads(done.stdout))
        change = ["--from-plan", str(folder / "old.json"), "--to-plan", str(folder / "new.json")]
        for run in range(_RUNS):
            target = str(folder / f"next-{run}")
            command = ["evolve", str(folder / "first"), target, *change, "--new-aggregates", "empty"]
            _say("evolve", given.groups, measured(command))


def _say(name: str, groups: int, figures: dict[str, float]) -> None:
    rate = groups / figures["seconds"] / 1e6
    print(
        f"{name:<8} {figures['seconds']:>6.2f} s  {rate:>5.2f} M groups/s  {figures['megabytes']:>4.0f} MB", flush=True
    )


if __name__ == "__main__":
    main()
