"""The vectors of tests/vectors, each file read once, and which of them only `make test` needs."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from tests.helpers.paths import VECTORS


@cache
def read_vectors(name: str) -> dict[str, Any]:
    """A file's content."""
    found: dict[str, Any] = json.loads((VECTORS / name).read_text(encoding="utf-8"))
    return found


def sweep_marks(file: str, entry: dict[str, Any], *, by_snapshot: bool = False) -> tuple[pytest.MarkDecorator, ...]:
    """Mark a serializer's entry `exhaustive` if a newer release's file has an entry of the same name.

    Args:
        file: The name of the entry's file.
        entry: One of its serializers.
        by_snapshot: Only an entry that has the same serializer snapshot, too, makes this one a repetition.
    """
    key = (entry["name"], entry["snapshot"] if by_snapshot else None)
    return () if _newest_files(by_snapshot)[key] == file else (pytest.mark.exhaustive,)


@cache
def _newest_files(by_snapshot: bool) -> dict[tuple[str, str | None], str]:
    """Return the file of the newest release that has an entry, by name and snapshot or by name."""
    files = sorted(VECTORS.glob("flink-[0-9]*.json"), key=lambda path: [int(part) for part in path.stem[6:].split(".")])
    return {
        (entry["name"], entry["snapshot"] if by_snapshot else None): path.name
        for path in files
        for entry in read_vectors(path.name)["serializers"]
    }
