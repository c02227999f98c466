"""Windows of a plan's nodes: what the namespaces of their states are."""

from __future__ import annotations

import math
import re
from typing import Any

from stateproc.query_plans.plan_nodes import PlanNode
from stateproc.readers.state_names import WindowNames

_DURATION = re.compile(r"(-?)P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?")
_SLICE = ("slice_start", "slice_end")
_ATTACHED = "WindowAttached"
_MAX_MILLIS = 1 << 62


def window_names(node: PlanNode, *path: str) -> WindowNames:
    """Return how the windows of a node are stored; ``path`` leads to its windowing strategy.

    Sessions have a start and an end. Of other windows the end is stored. Aggregates of HOP and CUMULATE windows are
    kept per slice, of which several make a window.
    """
    window, strategy = node.at(*path, "window"), node.at(*path, "strategy")
    window = window if isinstance(window, dict) else {}
    kind = window.get("type")
    if kind == "TumblingWindow":
        return WindowNames(size=_millis(node, window, "size"))
    if kind == "HoppingWindow":
        size, slide = _millis(node, window, "size"), _millis(node, window, "slide")
        if strategy == _ATTACHED or slide == size:
            return WindowNames(size=size)
        return WindowNames(*_SLICE, size=math.gcd(size, slide))
    if kind == "CumulativeWindow":
        if strategy == _ATTACHED:
            size, offset = _millis(node, window, "maxSize"), window.get("offset")
            return WindowNames(size=size, aligned=True, offset=_millis(node, window, "offset") if offset else 0)
        return WindowNames(*_SLICE, size=_millis(node, window, "step"))
    return WindowNames()


def _millis(node: PlanNode, window: dict[str, Any], name: str) -> int:
    """Parse a java.time.Duration as its toString writes it, or a number of milliseconds."""
    written = window.get(name)
    if type(written) is int and 0 < abs(written) < _MAX_MILLIS:
        return written
    match = _DURATION.fullmatch(written) if isinstance(written, str) and len(written) < 80 else None
    if match is None:
        raise node.error(f"the window's {name} is {str(written)[:80]!r}")
    sign, days, hours, minutes, seconds, fraction = match.groups()
    whole = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
    millis = whole * 1000 + int((fraction or "0").ljust(3, "0")[:3])
    if not (0 < millis < _MAX_MILLIS or name == "offset"):
        raise node.error(f"the window's {name} is {written!r}")
    return -millis if sign else millis
