"""Arrange operators: the treemap of sizes, the table, and bytes by key group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from stateproc.html.pictures import TreeGroup, TreeItem, skyline, state_style, treemap
from stateproc.html.units import counted, human_bytes
from stateproc.keygroups.ranges import key_group_range
from stateproc.model.raw_keyed import raw_keyed_text
from stateproc.reports.inspect_report import Report, is_stateless
from stateproc.reports.page.page_report import PageLimits

_SHORT_HASH = 8
"""Digits of a uid hash that select an operator as the whole hash does, as a rule."""
_MOST_ITEMS = 16
_SMALLEST_ITEM = 0.0008
"""The smallest share of a treemap that a state gets; smaller ones share an area."""
_COLUMNS, _FEWER_COLUMNS, _MANY = 128, 64, 40


@dataclass(frozen=True)
class OperatorRow:
    """One row of the table of operators; ``bar``: the bytes relative to the largest row."""

    title: str
    subtitle: str
    parallelism: int
    max_parallelism: int
    stored: str
    states: int
    unreadable: int
    bytes: int
    share: float
    bar: float
    skew: float | None


@dataclass(frozen=True)
class KeyGroupCard:
    """Bytes by key group of one operator.

    Attributes:
        skew: The largest key group over the mean of those with data.
        subtasks: The same of the subtasks that the operator has.
        empty: Key groups without data.
    """

    title: str
    picture: Markup
    bytes: int
    key_groups: int
    largest: int
    largest_bytes: int
    skew: float
    subtasks: float
    parallelism: int
    empty: int


def title_of(operator: Report) -> str:
    """Return what people know the operator by: its uid or name, else what it seems to be and the hash's beginning."""
    known = operator["uid"] or operator["name"]
    if known or not operator["label"]:
        return str(known or operator["uid_hash"])
    return f"{operator['label']} {operator['uid_hash'][:_SHORT_HASH]}"


def operator_rows(operators: Sequence[Report], limits: PageLimits) -> list[OperatorRow]:
    """Return the operators with state, the largest first."""
    total = sum(operator["bytes"] for operator in operators) or 1
    largest = max((operator["bytes"] for operator in operators), default=0) or 1
    rows = [
        OperatorRow(
            limits.short(title_of(operator)),
            limits.short(_subtitle(operator)),
            operator["parallelism"],
            operator["max_parallelism"],
            _stored(operator),
            len(operator["states"]),
            operator["unreadable_states"],
            operator["bytes"],
            operator["bytes"] / total,
            operator["bytes"] / largest,
            _skew(list(_key_group_bytes(operator))) if operator["key_group_bytes"] else None,
        )
        for operator in operators
        if not is_stateless(operator)
    ]
    return sorted(rows, key=lambda row: -row.bytes)[: limits.operators]


def stateless_operators(operators: Sequence[Report]) -> list[str]:
    """Return what the operators without any state are known by."""
    return [title_of(operator) for operator in operators if is_stateless(operator)]


def _subtitle(operator: Report) -> str:
    title = title_of(operator)
    return " · ".join(text for text in (operator["name"], operator["uid_hash"]) if text and text != title)


def _stored(operator: Report) -> str:
    facts = list(operator["layouts"])
    if operator["channel_bytes"]:
        facts.append(f"{human_bytes(operator['channel_bytes'])} in flight")
    if operator["raw_keyed"]:
        facts.append(raw_keyed_text(operator["raw_keyed"]["bytes"], operator["raw_keyed"]["key_groups"]))
    if operator["coordinator"] is not None:
        facts.append("coordinator")
    if operator["finished"]:
        facts.append("finished")
    elif operator["finished_subtasks"]:
        facts.append(f"{counted(len(operator['finished_subtasks']), 'subtask')} finished")
    return ", ".join(facts)


def size_treemap(operators: Sequence[Report], limits: PageLimits) -> Markup | None:
    """Return the sizes of operators and states; None if there are none."""
    ordered = sorted((item for item in operators if item["bytes"] > 0), key=lambda item: -item["bytes"])
    if not ordered:
        return None
    total = sum(operator["bytes"] for operator in ordered)
    shown = [_tree_group(operator, total, limits) for operator in ordered[: limits.tree_groups]]
    others = ordered[limits.tree_groups :]
    rest = None
    if others:
        size = sum(operator["bytes"] for operator in others)
        title = f"{counted(len(others), 'smaller operator')}, {human_bytes(size)}"
        rest = TreeItem(title, size, "other", title)
    return treemap(shown, rest, "Sizes of operators and their states")


def _tree_group(operator: Report, total: int, limits: PageLimits) -> TreeGroup:
    title = limits.short(title_of(operator))
    states = sorted((item for item in operator["states"] if item["bytes"]), key=lambda item: -item["bytes"])
    items = [
        _tree_item(title, limits.short(state["name"]), state)
        for state in states[:_MOST_ITEMS]
        if state["bytes"] > total * _SMALLEST_ITEM
    ]
    # Headers, files of states whose sizes are not known, records in flight, and states beyond the largest.
    rest = operator["bytes"] - sum(item.weight for item in items)
    if rest > 0 and (not items or rest > operator["bytes"] // 50):
        label = "not known by state" if not items else "other"
        parts = f"{title} · {label}: headers, key groups, what is not counted by state"
        items.append(TreeItem(label, rest, "other", f"{parts}\n{human_bytes(rest)}"))
    items.sort(key=lambda item: -item.weight)
    label = f"{title}  {human_bytes(operator['bytes'])}"
    return TreeGroup(label, tuple(items), f"{title}, {human_bytes(operator['bytes'])}")


def _tree_item(operator: str, name: str, state: Report) -> TreeItem:
    size = state["bytes"]
    return TreeItem(
        name, size, state_style(state["kind"], state["distribution"]), f"{operator} · {name}\n{human_bytes(size)}"
    )


def key_group_cards(operators: Sequence[Report], limits: PageLimits) -> list[KeyGroupCard]:
    """Return the operators with bytes by key group, the largest first."""
    found = [operator for operator in operators if len(operator["key_group_bytes"]) > 1]
    found.sort(key=lambda operator: -sum(operator["key_group_bytes"].values()))
    columns = _COLUMNS if len(found) <= _MANY else _FEWER_COLUMNS
    return [_key_group_card(operator, columns, limits) for operator in found[: limits.skylines]]


def _key_group_card(operator: Report, columns: int, limits: PageLimits) -> KeyGroupCard:
    sizes = _key_group_bytes(operator)
    largest = max(range(len(sizes)), key=lambda key_group: sizes[key_group])
    parallelism = max(min(operator["parallelism"], len(sizes)), 1)
    subtasks = [
        sum(sizes[key_group] for key_group in key_group_range(len(sizes), parallelism, index))
        for index in range(parallelism)
    ]
    title = limits.short(title_of(operator))
    return KeyGroupCard(
        title,
        skyline(sizes, _mean(sizes), f"Bytes by key group of {title}, 0 to {len(sizes) - 1}", columns),
        sum(sizes),
        len(sizes),
        largest,
        sizes[largest],
        _skew(sizes),
        _skew(subtasks),
        operator["parallelism"],
        sizes.count(0),
    )


def _key_group_bytes(operator: Report) -> list[int]:
    """Return the bytes of all key groups without what files have of empty ones."""
    found = {int(key_group): size for key_group, size in operator["key_group_bytes"].items()}
    # Native heap files have a few bytes for every key group, with or without keys.
    empty = min(found.values(), default=0) if "heap" in operator["layouts"] else 0
    return [max(found.get(key_group, 0) - empty, 0) for key_group in range(operator["max_parallelism"])]


def _mean(sizes: Sequence[int]) -> float:
    held = [size for size in sizes if size]
    return sum(held) / len(held) if held else 0.0


def _skew(sizes: Sequence[int]) -> float:
    """Return the largest size over the mean of those that are not 0, as the terminal shows it."""
    held = [size for size in sizes if size]
    return max(held) * len(held) / sum(held) if held else 1.0
