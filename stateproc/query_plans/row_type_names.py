"""Find the field names of a ROW type as a compiled plan writes it: in SQL, or as a JSON object."""

from __future__ import annotations

import re
from typing import Any

from stateproc.query_plans.plan_errors import invalid_plan
from stateproc.readers.state_names import Names

_MAX_FIELDS = 100_000
_NAME = re.compile(r"`((?:[^`]|``)*)`\s+")
_TOKEN = re.compile(r"`(?:[^`]|``)*`|'(?:[^']|'')*'|[<>(),]|[^`'<>(),]+")


def row_type_names(written: Any) -> Names:
    """Return the names of a row type's fields, each once: a name that comes again gets ``_1``.

    Args:
        written: ``ROW<`a` BIGINT, `b` STRING> NOT NULL`` or ``{"type": "ROW", "fields": [{"name": "a", …}, …]}``.

    Raises:
        InvalidOption: It is not a row type.
    """
    if isinstance(written, str):
        return unique_names(_names_in_sql(written))
    fields = written.get("fields") if isinstance(written, dict) and written.get("type") == "ROW" else None
    if not isinstance(fields, list):
        raise invalid_plan(f"a row type was expected where it has {_short(written)}")
    names = [item.get("name") if isinstance(item, dict) else None for item in fields]
    if not all(isinstance(name, str) for name in names):
        raise invalid_plan(f"a field without a name in {_short(written)}")
    return unique_names(str(name) for name in names)


def _names_in_sql(text: str) -> list[str]:
    """Return the names of the outermost fields; those of nested rows are at a deeper level of angle brackets."""
    if not text.startswith("ROW<"):
        raise invalid_plan(f"a row type was expected where it has {_short(text)}")
    names: list[str] = []
    at = len("ROW<")
    while text[at : at + 1] != ">":
        match = _NAME.match(text, at)
        if match is None or len(names) >= _MAX_FIELDS:
            raise invalid_plan(f"the row type {_short(text)} cannot be parsed at character {at}")
        names.append(match[1].replace("``", "`"))
        at = _end_of_field(text, match.end())
        if text[at : at + 1] == ",":
            at += len(", ")
    return names


def _end_of_field(text: str, at: int) -> int:
    """Return the position of the comma or bracket that ends the field whose type begins at ``at``."""
    depth = 0
    while True:
        token = _TOKEN.match(text, at)
        if token is None:
            raise invalid_plan(f"the row type {_short(text)} ends within a field")
        found = token[0]
        if depth == 0 and found in ",>":
            return at
        depth += (found in "<(") - (found in ">)")
        at = token.end()


def unique_names(names: Any) -> Names:
    """Return the names with ``_1``, ``_2``, … after those that came before."""
    found: dict[str, None] = {}
    for name in names:
        candidate, number = name, 0
        while candidate in found:
            number += 1
            candidate = f"{name}_{number}"
        found[candidate] = None
    return tuple(found)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
