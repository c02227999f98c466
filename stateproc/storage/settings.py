"""Settings of a file system as people write them in options and arguments: text."""

from __future__ import annotations

import json
from typing import Any

STORAGE_PREFIX = "fs."
"""What the names of such settings begin with, among other options."""


def storage_value(text: str) -> Any:
    """What fsspec is given: booleans and JSON objects or lists as such; keys and secrets stay the text they are."""
    if text in ("true", "false") or text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text
