"""Write bytes, numbers, times and durations for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_STEPS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))


_RANGES = ((0, 9), (11, 32), (127, 160), (0x61C, 0x61D), (0x200B, 0x2010), (0x2028, 0x202F), (0x2060, 0x206A))
_HIDDEN = {code: f"\\u{code:04x}" for first, end in _RANGES for code in range(first, end)}
"""Characters that cannot be seen, or change the direction of the text around them."""


def visible(text: str) -> str:
    """Return a text of a snapshot with invisible characters as their codes, so that a name looks like no other."""
    return text.translate(_HIDDEN)


def size_parts(n: int) -> tuple[str, str]:
    """Return bytes as a number with one decimal, and a binary unit."""
    size, unit = float(n), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return (str(n) if unit == 0 else f"{size:.1f}"), _UNITS[unit]


def human_bytes(n: int | None) -> str:
    """Return bytes with a binary unit; a dash for None."""
    return "–" if n is None else " ".join(size_parts(n))


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, in the plural (``noun`` with an s by default) unless it is one."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def some_of(names: Sequence[str], most: int) -> str:
    """Return the first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def time_text(milliseconds: int, step: int = 1_000) -> str:
    """Return ms since 1970 as a date and time in UTC, as precise as ``step`` (ms) needs."""
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    if step % 86_400_000 == 0:
        return moment.strftime("%Y-%m-%d")
    if step % 60_000 == 0:
        return moment.strftime("%Y-%m-%d %H:%M")
    text = moment.strftime("%Y-%m-%d %H:%M:%S")
    return text if step % 1_000 == 0 else f"{text}.{moment.microsecond // 1000:03d}"


def duration_text(milliseconds: int) -> str:
    """Return a duration in its two largest units: ``2 d 3 h``."""
    for at, (size, unit) in enumerate(_STEPS):
        if milliseconds >= size:
            whole, rest = divmod(milliseconds, size)
            smaller = _STEPS[at + 1] if at + 1 < len(_STEPS) else None
            if smaller is None or rest < smaller[0] or whole >= 100:
                return f"{whole:,} {unit}"
            return f"{whole:,} {unit} {rest // smaller[0]} {smaller[1]}"
    return "0 ms"
