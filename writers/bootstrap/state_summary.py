"""Show what an operator's bootstrap contains: its states with their types, and the columns that fill them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stateproc.html.cards import MOST_ROWS, Card, CardCell, Head, short
from stateproc.html.units import counted
from stateproc.serializers import Serializer
from stateproc.writers.bootstrap.state_registration import RegisteredState

_MODES = {"SPLIT_DISTRIBUTE": "operator list", "UNION": "union list", "BROADCAST": "broadcast"}
_HEADS = (Head("state"), Head("kind"), Head("type"), Head("columns"))


@dataclass(frozen=True)
class StateSummary:
    """One state: its name, its kind, Flink's type of its values, and the columns by their roles."""

    name: str
    kind: str
    type: str
    columns: str

    @property
    def line(self) -> str:
        """The state in one line."""
        return f"{self.kind} {self.name}: {self.type}" + (f", from {self.columns}" if self.columns else "")


def keyed_summary(state: RegisteredState, columns: Mapping[str, str]) -> StateSummary:
    """Return the summary of a keyed state."""
    kind = state.kind.value.replace("_", " ").lower()
    value = "–" if state.value is None else _value_type(state.value, state.user_key, state.kind.value == "list")
    ttl = ", time to live" if state.ttl else ""
    return StateSummary(state.name, kind, value + ttl, _columns(columns))


def operator_summary(
    name: str, mode: str, value: Serializer, key: Serializer | None, columns: Mapping[str, str]
) -> StateSummary:
    """Return the summary of an operator state."""
    return StateSummary(name, _MODES[mode], _value_type(value, key, False), _columns(columns))


def summary_text(key: str | None, states: Iterable[StateSummary]) -> str:
    """Return the states as lines; ``key``: the type of keys, None without keyed state."""
    found = list(states)
    keyed = "" if key is None else f", keys {key}"
    return "\n".join([f"Bootstrap of {counted(len(found), 'state')}{keyed}", *(f"  {item.line}" for item in found)])


def summary_card(key: str | None, states: Iterable[StateSummary]) -> Card:
    """Return the states as a card for notebooks."""
    found = list(states)
    rows = [
        [CardCell(short(it.name), strong=True), CardCell(it.kind), CardCell(short(it.type), code=True),
         CardCell(short(it.columns))]
        for it in found[:MOST_ROWS]
    ]  # fmt: skip
    more = [f"and {len(found) - MOST_ROWS:,} more"] if len(found) > MOST_ROWS else []
    facts = [] if key is None else [("keys", short(key))]
    return Card("State of an operator", counted(len(found), "state"), facts, heads=_HEADS, rows=rows, notes=more)


def _value_type(value: Serializer, key: Serializer | None, is_list: bool) -> str:
    if key is not None:
        return f"Map<{key.type_name}, {value.type_name}>"
    return f"List<{value.type_name}>" if is_list else value.type_name


def _columns(columns: Mapping[str, str]) -> str:
    return ", ".join(name if name == role else f"{name} as {role}" for role, name in columns.items())
