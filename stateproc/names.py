"""Find things by name, and say which names are near when there is none."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from stateproc.errors import NotFound


def not_found(what: str, name: str, known: Iterable[str]) -> NotFound:
    """A NotFound that offers the nearest names, or all if there are few."""
    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(name, names, n=5, cutoff=0.5)
    if near:
        advice = "did you mean " + " or ".join(repr(item) for item in near) + "?"
    elif names:
        shown = ", ".join(repr(item) for item in names[:20])
        advice = f"there are: {shown}" + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    else:
        advice = "there are none"
    return NotFound(f"no {what} {name!r}", advice=advice)
