"""Bars and sparklines in text."""

from __future__ import annotations

from collections.abc import Sequence

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_STEPS = "▁▂▃▄▅▆▇█"


def bar(share: float, width: int = 10) -> str:
    """A bar of ``share`` (0 to 1) of ``width`` characters; what is not nothing shows."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    if share > 0:
        eighths = max(eighths, 1)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)


def sparkline(values: Sequence[float], width: int = 64) -> str:
    """The values as a line of little columns, of neighbours the sum; a dot where there is nothing."""
    buckets = _gathered(values, width)
    top = max(buckets, default=0)
    if top <= 0:
        return "·" * len(buckets)
    return "".join(_STEPS[min(int(value / top * 8), 7)] if value > 0 else "·" for value in buckets)


def _gathered(values: Sequence[float], width: int) -> list[float]:
    n = min(width, len(values))
    return [sum(values[len(values) * i // n : len(values) * (i + 1) // n]) for i in range(n)] if n else []


def human_bytes(n: int | None) -> str:
    """Bytes as people read them."""
    if n is None:
        return "–"
    size = float(n)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{n} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
