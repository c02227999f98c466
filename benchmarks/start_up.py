"""Measure the first commands of a process without HOME and with empty caches: CPU seconds, memory, and numba.

    python -m benchmarks.start_up                              # this checkout
    python -m benchmarks.start_up --python VENV/bin/python     # a wheel that is installed there

Each command runs twice. With --check the exit status is 1 if one exceeds its limits or imports numba.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "tests" / "fixtures" / "1.20" / "demo" / "snapshot"
LIMITS = {("read", "--uid", "orders-per-customer"): (1.5, 150), ("inspect",): (0.7, 150)}
"""Command → CPU seconds and megabytes that it may take at most."""
_PROGRAM = """
import sys
from stateproc.cli import main
status = main(sys.argv[1:])
sys.exit(status or int(bool({"numba", "pandas"} & set(sys.modules))))
"""


def measured(python: str, command: tuple[str, ...], temporary: str) -> tuple[int, float, int]:
    """Run a command of stateproc; return status (1 also if it imports numba or pandas), CPU seconds, megabytes."""
    environment = {"PATH": "/usr/bin:/bin", "TMPDIR": temporary}
    if python == sys.executable:
        environment["PYTHONPATH"] = str(ROOT)
    line = [python, "-c", _PROGRAM, command[0], str(DEMO), *command[1:]]
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    _, status, used = os.wait4(os.posix_spawn(python, line, environment, file_actions=quiet), 0)
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss // 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    python = arguments.python
    figures: dict[str, Any] = {}
    exceeded = False
    with tempfile.TemporaryDirectory() as temporary:
        for command, (seconds, megabytes) in LIMITS.items():
            for run in ("first", "second"):
                status, cpu, peak = measured(python, command, temporary)
                figures[f"{command[0]}, {run}"] = {"CPU seconds": round(cpu, 2), "megabytes": peak, "status": status}
                exceeded |= status != 0 or cpu > seconds or peak > megabytes
    print(json.dumps(figures, indent=2))
    return int(exceeded and arguments.check)


if __name__ == "__main__":
    sys.exit(main())
