"""Positions that users give in the words of connectors: times, and what is said where a text is no position."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

from stateproc.errors import InvalidOption

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def moment(text: str) -> int | None:
    """Return the milliseconds since the epoch of a time of ISO 8601 with its offset from UTC; None for other texts."""
    if not re.match(r"\d{4}-\d", text):
        return None
    try:
        # Before Python 3.11 fromisoformat does not accept Z.
        found = datetime.fromisoformat(re.sub(r"[Zz]$", "+00:00", text))
    except ValueError:
        return None
    return None if found.tzinfo is None else (found - _EPOCH) // timedelta(milliseconds=1)


def position_error(text: str, of: str, forms: Sequence[str]) -> InvalidOption:
    """Return the error of a text that is no position of a source; ``forms``: those that it has, none if none is set."""
    if not forms:
        return InvalidOption(
            f"positions of {of} cannot be set: no layout of them has been compared with its connector",
            advice="stateproc offsets PATH shows where it continues",
        )
    return InvalidOption(f"{text!r} is no position of {of}", advice=f"give {', or '.join(forms)}")
