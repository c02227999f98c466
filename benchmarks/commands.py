"""Measure every command on large snapshots, of every format and from a store that speaks S3.

    python -m benchmarks.commands                     # 5 million keys: canonical, RocksDB, heap, changelog; local disk
    python -m benchmarks.commands --store             # the canonical one from an S3 server in this process as well

Each command is a process of its own: seconds, CPU seconds, peak megabytes, and rows per second of those that read all
rows. The S3 server is moto's, in Python: it is slow with ranges of large objects, so that its figures show only that
commands work there, not how fast they are on a store. It takes minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.__main__ import FORMATS, snapshot
from benchmarks.bench import _STATE, _UID
from benchmarks.many_files import measured

_READS_ALL = ("verify", "export", "diff", "sql, all rows")


def commands(path: str, out: Path) -> dict[str, Sequence[str]]:
    """Return the commands by name. ``out``: a directory for what they write."""
    table = f'"{_UID}"."{_STATE}"'
    return {
        "ls": ["ls", path.rpartition("/")[0]],
        "inspect": ["inspect", path, "--uids", _UID],
        "inspect --html": ["inspect", path, "--html", str(out / "page.html")],
        "classes": ["classes", path],
        "describe": ["describe", path, "--uid", _UID],
        "verify": ["verify", path],
        "export": ["export", path, "--uid", _UID, "-o", str(out / "export")],
        "read, one key": ["read", path, "--uid", _UID, "--state", _STATE, "--where", "key = 4711", "--format", "jsonl"],
        "sql, one key": ["sql", path, f"SELECT * FROM {table} WHERE key = 4711", "--uids", _UID, "--format", "jsonl"],
        "sql, all rows": ["sql", path, f"SELECT sum(value.visits) FROM {table}", "--uids", _UID, "--format", "jsonl"],
        "diff": ["diff", path, path],
    }


def run(path: str, keys: int) -> dict[str, Any]:
    """Measure all commands on one snapshot of ``keys`` keys."""
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as directory:
        for name, command in commands(path, Path(directory)).items():
            # A changelog alone does not contain the type of its keys; that of other formats is the same.
            opening = [] if name == "ls" else ["--key-type", "Long"]
            figures[name] = measured([*command, *opening])
            if name in _READS_ALL:
                figures[name]["rows per second"] = round(keys / figures[name]["seconds"])
    return figures


@contextmanager
def stored(path: Path) -> Iterator[str]:
    """Upload a snapshot to an S3 server, whose address is in the environment meanwhile; yield the snapshot's URI."""
    from tests.helpers.stores.object_store import object_store

    with object_store() as store:
        before = dict(os.environ)
        os.environ.update(store.environment)
        try:
            yield store.upload(path, "savepoints/" + path.name)
        finally:
            os.environ.clear()
            os.environ.update(before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--store", action="store_true", help="from an S3 server, too")
    parser.add_argument("--format", choices=FORMATS, action="append", help="only this one; repeatable")
    arguments = parser.parse_args()
    figures: dict[str, Any] = {}
    for form in arguments.format or FORMATS:
        figures[form] = run(str(snapshot(arguments.keys, form)), arguments.keys)
    if arguments.store:
        with stored(snapshot(arguments.keys, "canonical")) as uri:
            figures["canonical, S3"] = run(uri, arguments.keys)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
