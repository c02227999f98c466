"""Draw bars and sparklines as text."""

from __future__ import annotations

from collections.abc import Sequence

from stateproc.html.units import human_bytes as human_bytes

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_STEPS = "▁▂▃▄▅▆▇█"


def bar(share: float, width: int = 10) -> str:
    """Return a bar of ``width`` characters for a share from 0 to 1; every positive share is visible."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    if share > 0:
        eighths = max(eighths, 1)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)


def sparkline(values: Sequence[float], width: int = 64) -> str:
    """Return the values as a line of columns. Neighbours share a column if ``width`` is too small; a dot is zero."""
    buckets = _buckets(values, width)
    top = max(buckets, default=0)
    if top <= 0:
        return "·" * len(buckets)
    return "".join(_STEPS[min(int(value / top * 8), 7)] if value > 0 else "·" for value in buckets)


def _buckets(values: Sequence[float], width: int) -> list[float]:
    n = min(width, len(values))
    return [sum(values[len(values) * i // n : len(values) * (i + 1) // n]) for i in range(n)] if n else []
