"""Real Flink runs queries that go on from savepoints, whoever wrote them (see README.md, "Queries that go on")."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.helpers.flink.compilation import JAVA, restoring_path
from tests.helpers.quick_java import QUICK_JAVA

Order = tuple[int, str, float, int, str | None, int]
"""customer, product, amount, number, price, the order's time in ms since the epoch."""


QueryResults = dict[str, list[list[Any]]]
"""Query → its results: change (+I, -U, +U, -D), and the row's values."""


class Queries:
    """One JVM with one Flink cluster, which runs a job of all queries whenever it is asked to."""

    def __init__(self, release: str, root: Path) -> None:
        self._root = root
        command = [*JAVA, *QUICK_JAVA, "-cp", restoring_path(release), "continuing.Continuing", str(root)]
        self._log = (root / "flink.log").open("w")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )

    def begin(self, name: str, orders: Iterable[Order]) -> Path:
        """The savepoint of a job that has seen these orders."""
        self._run(name, "hashmap", orders, None)
        return Path((self._root / f"{name}.savepoint").read_text().strip())

    def go_on(self, name: str, backend: str, savepoint: str, orders: Iterable[Order]) -> QueryResults:
        """Return the results of the queries for more orders, and for the end of time."""
        return self._run(name, backend, orders, savepoint)

    def _run(self, name: str, backend: str, orders: Iterable[Order], savepoint: str | None) -> QueryResults:
        rows = self._root / f"{name}.orders"
        rows.write_text("".join("\t".join(map(_text, order)) + "\n" for order in orders))
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\t".join((name, backend, str(rows), savepoint or "-")) + "\n")
        self._process.stdin.flush()
        if self._process.stdout.readline().strip() != name:
            raise RuntimeError(f"the JVM ended:\n{(self._root / 'flink.log').read_text()[-4000:]}")
        refused = self._root / f"{name}.error"
        if refused.is_file():
            raise AssertionError(refused.read_text())
        lines = [json.loads(line) for line in (self._root / f"{name}.jsonl").read_text().splitlines()]
        return _by_query(lines)

    def __enter__(self) -> Queries:
        return self

    def __exit__(self, *error: object) -> None:
        """Ends the JVM."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._log.close()


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _by_query(lines: Sequence[dict[str, Any]]) -> QueryResults:
    found: QueryResults = {}
    for line in lines:
        found.setdefault(line["query"], []).append([line["change"], *line["row"]])
    return found
