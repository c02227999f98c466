"""Arrange histograms: when timers fire, and when entries with a time to live were last accessed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from markupsafe import Markup

from stateproc.html.pictures import histogram
from stateproc.html.units import duration_text, time_text
from stateproc.reports.page.operator_sections import title_of
from stateproc.reports.page.page_report import PageLimits, PageReport
from stateproc.reports.state_times import StateTimes, TimeHistogram


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
    return TimeCard(
        operator,
        item.state,
        item.kind,
        found.count,
        histogram(found.bins, titles if detailed else (), label),
        time_text(found.start, found.width),
        _end_text(found, end),
        duration_text(found.width),
        _facts(found, newest),
        "",
    )


def _end_text(found: TimeHistogram, end: int) -> str:
    """Return the end of the axis, without the date if that is the date of its start."""
    first, last = time_text(found.start, found.width), time_text(end, found.width)
    return last[11:] if last[:10] == first[:10] and len(last) > 10 else last


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
