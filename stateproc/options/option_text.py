"""The text of options, which is what Spark passes to a data source."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from stateproc.errors import InvalidOption


def option_texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Return options as text: text and paths as they are, other values as JSON, sets as lists; None is left out.

    Raises:
        InvalidOption: A value has no JSON.
    """
    return {name: _text(name, value) for name, value in options.items() if value is not None}


def _text(name: str, value: Any) -> str:
    if isinstance(value, str | os.PathLike):
        return os.fsdecode(value)

    def plain(item: Any) -> Any:
        if isinstance(item, set | frozenset):
            return sorted(item, key=str)
        if isinstance(item, os.PathLike):
            return os.fsdecode(item)
        raise InvalidOption(
            f"option {name} cannot be of type {type(item).__name__}", advice="give text, numbers, lists or dicts"
        )

    return json.dumps(value, default=plain)
