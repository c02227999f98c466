"""The vectors of tests/vectors, each file read once."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from tests.helpers.paths import VECTORS


@cache
def read_vectors(name: str) -> dict[str, Any]:
    """A file's content."""
    found: dict[str, Any] = json.loads((VECTORS / name).read_text(encoding="utf-8"))
    return found
