"""Measure every command on large snapshots, of every format, on local disk and from a server that speaks S3.

    python -m benchmarks.commands                     # 5 million keys: canonical, RocksDB, heap, changelog; local disk
    python -m benchmarks.commands --store             # from an S3 server instead, see benchmarks/s3_server.py

Each command is a process of its own: seconds, CPU seconds, peak megabytes, and rows per second of those that read all
rows; from S3 also requests and megabytes over the network. `export` writes to the store that it reads from. It takes
minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.__main__ import CACHE, FORMATS, snapshot
from benchmarks.bench import _STATE, _UID
from benchmarks.many_files import measured
from benchmarks.s3_server import BUCKET, s3_server

_READS_ALL = ("verify", "export", "diff", "sql, all rows")


def commands(path: str, out: Path, export: str) -> dict[str, Sequence[str]]:
    """Return the commands by name. ``out``: a directory for what they write; ``export``: the directory of an export."""
    table = f'"{_UID}"."{_STATE}"'
    return {
        "ls": ["ls", path.rpartition("/")[0]],
        "inspect": ["inspect", path, "--uids", _UID],
        "inspect --html": ["inspect", path, "--html", str(out / "page.html")],
        "classes": ["classes", path],
        "describe": ["describe", path, "--uid", _UID],
        "verify": ["verify", path],
        "export": ["export", path, "--uid", _UID, "-o", export],
        "read, one key": ["read", path, "--uid", _UID, "--state", _STATE, "--where", "key = 4711", "--format", "jsonl"],
        "sql, one key": ["sql", path, f"SELECT * FROM {table} WHERE key = 4711", "--uids", _UID, "--format", "jsonl"],
        "sql, all rows": ["sql", path, f"SELECT sum(value.visits) FROM {table}", "--uids", _UID, "--format", "jsonl"],
        "diff": ["diff", path, path],
    }


def run(path: str, keys: int, export: str | None = None) -> dict[str, Any]:
    """Measure all commands on one snapshot of ``keys`` keys."""
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as directory:
        target = export or str(Path(directory, "export"))
        for name, command in commands(path, Path(directory), target).items():
            # A changelog alone does not contain the type of its keys; that of other formats is the same.
            opening = [] if name == "ls" else ["--key-type", "Long"]
            figures[name] = measured([*command, *opening])
            if name in _READS_ALL:
                figures[name]["rows per second"] = round(keys / figures[name]["seconds"])
    return figures


def run_from_store(path: Path, keys: int) -> dict[str, Any]:
    """Measure all commands on one snapshot, with its job's other files, in an S3 server."""
    with s3_server(CACHE) as server:
        before = dict(os.environ)
        os.environ.update(server.environment)
        try:
            return run(f"{server.add(path.parent, 'job')}/{path.name}", keys, f"s3://{BUCKET}/export")
        finally:
            os.environ.clear()
            os.environ.update(before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--store", action="store_true", help="from an S3 server")
    parser.add_argument("--format", choices=FORMATS, action="append", help="only this one; repeatable")
    arguments = parser.parse_args()
    figures: dict[str, Any] = {}
    for form in arguments.format or FORMATS:
        path = snapshot(arguments.keys, form)
        figures[form] = run_from_store(path, arguments.keys) if arguments.store else run(str(path), arguments.keys)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
