"""Name the style of a kind of state: one colour for each in all pictures."""

from __future__ import annotations

_STYLES = {
    "value": "value",
    "list": "list",
    "map": "map",
    "reducing": "aggregating",
    "aggregating": "aggregating",
    "event timers": "timers",
    "processing timers": "timers",
}


def state_style(kind: str, distribution: str) -> str:
    """Return the class that colours a state."""
    return _STYLES.get(kind, "operator") if distribution == "keyed" else "operator"
