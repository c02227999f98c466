"""Arrange states: the table with their types, and statistics of RocksDB tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from stateproc.html.cards import TypeNode
from stateproc.html.pictures import histogram, stacked_bar, state_style
from stateproc.html.units import duration_text, human_bytes, time_text
from stateproc.reports.inspect_report import Report
from stateproc.reports.page.operator_sections import title_of
from stateproc.reports.page.page_report import PageLimits, PageReport
from stateproc.reports.state_times import StateTimes, TimeHistogram


@dataclass(frozen=True)
class StateRow:
    """One row of the table of states; ``bar``: the bytes relative to the largest row."""

    name: str
    operator: str
    style: str
    kind: str
    key: str
    namespace: str
    value: str
    entries: int | None
    bytes: int | None
    share: float
    bar: float
    ttl: bool
    problem: str
    columns: tuple[TypeNode, ...]


@dataclass(frozen=True)
class StateRows:
    """The table of states, the largest first; ``omitted``: the number of those that the page does not have."""

    rows: list[StateRow]
    omitted: int


@dataclass(frozen=True)
class RocksDbRow:
    """Statistics of one state's tables."""

    operator: str
    state: str
    facts: Mapping[str, Any]
    levels: str
    picture: Markup


def state_rows(report: PageReport, limits: PageLimits) -> StateRows:
    """Return the states, the largest first, with type trees as long as the page stays small."""
    operators = report.inspect["operators"]
    found = [(operator, state) for operator in operators for state in operator["states"]]
    found.sort(key=lambda pair: -(pair[1]["bytes"] or 0))
    total = sum(state["bytes"] or 0 for _, state in found) or 1
    largest = max((state["bytes"] or 0 for _, state in found), default=0) or 1
    budget, rows = limits.fields, []
    for operator, state in found[: limits.states]:
        columns = report.columns.get((operator["uid_hash"], state["name"], state["distribution"]), ())
        size = sum(map(_size, columns))
        if size > budget:
            columns = ()
        else:
            budget -= size
        row = _state_row(operator, state, columns, limits)
        size_known = state["bytes"] or 0
        rows.append(replace(row, share=size_known / total, bar=size_known / largest))
    return StateRows(rows, max(len(found) - limits.states, 0))


def _size(node: TypeNode) -> int:
    return 1 + sum(map(_size, node.children))


def _state_row(operator: Report, state: Report, columns: tuple[TypeNode, ...], limits: PageLimits) -> StateRow:
    split = state["distribution"] in ("split", "union")
    return StateRow(
        name=limits.short(state["name"]),
        operator=limits.short(title_of(operator)),
        style=state_style(state["kind"], state["distribution"]),
        kind=f"{state['distribution']} {state['kind']}" if split else state["kind"],
        key=limits.short(state["key_type"]),
        namespace=limits.short(state["namespace_type"]),
        value=limits.short(state["value_type"]),
        entries=state["entries"],
        bytes=state["bytes"],
        share=0.0,
        bar=0.0,
        ttl=state["ttl"],
        problem=(state["problem"] or "")[: 4 * limits.text],
        columns=columns,
    )


def rocksdb_rows(report: PageReport, limits: PageLimits) -> list[RocksDbRow]:
    """Return the states with RocksDB tables, the largest first."""
    titles = {operator["uid_hash"]: title_of(operator) for operator in report.inspect["operators"]}
    rows = [
        _rocksdb_row(limits.short(titles.get(operator_id, operator_id)), state, limits)
        for operator_id, tables in report.rocksdb.items()
        for state in tables["states"]
    ]
    return sorted(rows, key=lambda row: -row.facts["bytes"])[: limits.tables]


def _rocksdb_row(operator: str, state: Report, limits: PageLimits) -> RocksDbRow:
    levels = dict(sorted(_level_bytes(state["tables"])))
    total = sum(size for _, size in levels.values()) or 1
    parts = [
        (f"level{min(level, 6)}", size / total, f"L{level}: {files} files, {human_bytes(size)}")
        for level, (files, size) in levels.items()
    ]
    text = "  ".join(f"L{level}:{files}" for level, files in state["levels"].items())
    facts = {name: value for name, value in state.items() if name != "tables"}
    return RocksDbRow(operator, limits.short(state["state"]), facts, text, stacked_bar(parts))


def _level_bytes(tables: Sequence[Report]) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield (level, (files, bytes))."""
    found: dict[int, list[int]] = {}
    for table in tables:
        if table["level"] is not None:
            found.setdefault(table["level"], []).append(table["bytes"])
    for level, sizes in found.items():
        yield level, (len(sizes), sum(sizes))


# Arrange histograms: when timers fire, and when entries with a time to live were last accessed.


@dataclass(frozen=True)
class TimeCard:
    """One histogram.

    Attributes:
        facts: Sentences about times that the picture does not show.
        note: Why there is no picture; "" if there is one.
    """

    operator: str
    state: str
    kind: str
    count: int
    picture: Markup | None
    start: str
    end: str
    bin: str
    facts: list[str]
    note: str


def time_cards(report: PageReport, limits: PageLimits, *, timers: bool) -> list[TimeCard]:
    """Return the histograms with the most times first; states without any time are omitted."""
    titles = {operator["uid_hash"]: title_of(operator) for operator in report.inspect["operators"]}
    found = [item for item in report.times if (item.kind != "last access") is timers and _is_shown(item)]
    found.sort(key=lambda item: -(item.histogram.count if item.histogram else 0))
    newest = max((item.histogram.last or 0 for item in found if item.histogram), default=0)
    return [
        _card(
            limits.short(titles.get(item.operator_id, item.operator_id)),
            replace(item, state=limits.short(item.state)),
            None if timers else newest,
            at < limits.detailed,
        )
        for at, item in enumerate(found[: limits.histograms])
    ]


def _is_shown(item: StateTimes) -> bool:
    return item.histogram is None or item.histogram.count + item.histogram.undated > 0


def _card(operator: str, item: StateTimes, newest: int | None, detailed: bool) -> TimeCard:
    found = item.histogram
    if found is None or not found.bins:
        facts = [] if found is None else _facts(found, None)
        return TimeCard(operator, item.state, item.kind, 0, None, "", "", "", facts, item.note or "")
    end = found.start + found.width * len(found.bins)
    titles = [
        f"{time_text(found.start + at * found.width, found.width)}: {count:,}" for at, count in enumerate(found.bins)
    ]
    label = f"{item.kind} of {operator}, {time_text(found.start)} to {time_text(end)} UTC"
    # The end of the axis is without the date if that is the date of its start.
    first, last = time_text(found.start, found.width), time_text(end, found.width)
    return TimeCard(
        operator,
        item.state,
        item.kind,
        found.count,
        histogram(found.bins, titles if detailed else (), label),
        time_text(found.start, found.width),
        last[11:] if last[:10] == first[:10] and len(last) > 10 else last,
        duration_text(found.width),
        _facts(found, newest),
        "",
    )


def _facts(found: TimeHistogram, newest: int | None) -> list[str]:
    facts = []
    if newest is not None and found.first is not None and found.last is not None:
        facts.append(f"oldest {duration_text(newest - found.first)} before the newest access of all states")
    elif found.first is not None and found.last is not None:
        step = 1_000 if found.last - found.first > 10_000 else 1
        facts.append(f"{time_text(found.first, step)} to {time_text(found.last, step)} UTC")
    if found.before:
        facts.append(f"{found.before:,} earlier than shown")
    if found.after:
        facts.append(f"{found.after:,} later than shown")
    if found.undated:
        facts.append(f"{found.undated:,} that never fire (the largest or smallest long)")
    return facts
