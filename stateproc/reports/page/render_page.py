"""Write the page of ``inspect --html``: one file that needs no network, below 2 MB for any job."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from stateproc.html.cards import asset, render
from stateproc.html.units import counted, human_bytes, some_of
from stateproc.reports.inspect_report import Report
from stateproc.reports.page.operator_sections import key_group_cards, operator_rows, size_treemap, stateless_operators
from stateproc.reports.page.page_report import PageLimits, PageReport
from stateproc.reports.page.state_sections import rocksdb_rows, state_rows, time_cards

# Group the problems of a snapshot by their reason.

_PLACE = re.compile(r" \[[^\[\]]*\]$")
_ADVICE = "\n  → "
_SHOWN = 12


@dataclass
class ProblemGroup:
    """States and operators that share a reason.

    Attributes:
        reason: What is wrong.
        advice: What to do; "" if there is nothing to recommend.
        count: The number of states and operators.
        names: Some of them.
    """

    reason: str
    advice: str
    count: int = 0
    names: list[str] = field(default_factory=list)

    @property
    def omitted(self) -> int:
        """The number of those that are not in ``names``."""
        return self.count - len(self.names)


def problem_groups(operators: Iterable[Report], limits: PageLimits) -> list[ProblemGroup]:
    """Return all problems, those with the most states first."""
    groups: dict[tuple[str, str], ProblemGroup] = {}

    def add(text: str, name: str) -> None:
        message, _, advice = text.partition(_ADVICE)
        reason = _PLACE.sub("", message)
        group = groups.setdefault((reason, advice), ProblemGroup(reason[: 4 * limits.text], advice[: 4 * limits.text]))
        group.count += 1
        if len(group.names) < _SHOWN:
            group.names.append(limits.short(name))

    for operator in operators:
        display = operator["uid"] or operator["uid_hash"]
        for problem in operator["problems"]:
            add(problem, display)
        for state in operator["states"]:
            if state["problem"]:
                add(state["problem"], f"{display} · {state['name']}")
    return sorted(groups.values(), key=lambda group: -group.count)[: limits.problems]


_MOST_BYTES = 2_000_000
_SMALLEST = 6
"""How often the limits of a page are halved at most."""


def render_page(report: PageReport, *, version: str, made: datetime) -> str:
    """Return the page."""
    limits = PageLimits()
    for _ in range(_SMALLEST):
        page = _rendered(report, limits, version, made)
        if len(page) < _MOST_BYTES // 2 or len(page.encode()) < _MOST_BYTES:
            break
        limits = limits.halved()
    return page


def _rendered(report: PageReport, limits: PageLimits, version: str, made: datetime) -> str:
    inspect = report.inspect
    script = asset("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return render(
        "page.html.j2",
        title=f"{_titled(inspect['kind'])} {inspect['checkpoint_id']}",
        path=inspect["path"],
        facts=_facts(report),
        tiles=_tiles(report),
        problems=problem_groups(inspect["operators"], limits),
        unreadable=inspect["unreadable_states"],
        unlisted=inspect["unlisted_operators"],
        treemap=size_treemap(inspect["operators"], limits),
        operators=operator_rows(inspect["operators"], limits),
        stateless=[limits.short(name) for name in stateless_operators(inspect["operators"])[: limits.operators]],
        states=state_rows(report, limits),
        key_groups=key_group_cards(inspect["operators"], limits),
        timers=time_cards(report, limits, timers=True),
        accesses=time_cards(report, limits, timers=False),
        rocksdb=rocksdb_rows(report, limits),
        offsets=report.offsets[: limits.offsets],
        omitted_offsets=max(len(report.offsets) - limits.offsets, 0),
        notes=[*report.notes, *_hidden(inspect), *_operator_notes(inspect)][: limits.problems],
        version=version,
        made=made.strftime("%Y-%m-%d %H:%M UTC"),
        style=asset("page.css"),
        pictures_style=asset("pictures.css"),
        script=script,
        script_hash=digest,
    )


def _titled(kind: str) -> str:
    return kind[:1].upper() + kind[1:]


def _facts(report: PageReport) -> list[tuple[str, str]]:
    inspect = report.inspect
    facts = [
        ("Flink", inspect["flink_versions"]),
        ("metadata", f"version {inspect['metadata_version']}"),
    ]
    if report.written is not None:
        facts.insert(0, ("written", report.written.strftime("%Y-%m-%d %H:%M:%S UTC")))
    if inspect["note"]:
        facts.append(("note", inspect["note"]))
    facts += [
        ("master state", f"{item['name']} v{item['version']}, {human_bytes(item['bytes'])}")
        for item in inspect["master_states"]
    ]
    return facts


def _tiles(report: PageReport) -> list[tuple[str, str, str]]:
    """Return (number, unit, what is counted)."""
    inspect = report.inspect
    operators = inspect["operators"]
    states = [state for operator in operators for state in operator["states"]]
    entries = sum(state["entries"] or 0 for state in states)
    uncounted = sum(state["entries"] is None for state in states)
    size, unit = human_bytes(report.inspect["bytes"]).split(" ")
    return [
        (size, unit, "in all files"),
        (f"{inspect['operator_count']:,}", "", "operator" if inspect["operator_count"] == 1 else "operators"),
        (f"{inspect['state_count']:,}", "", "state" if inspect["state_count"] == 1 else "states"),
        (f"{entries:,}", "", "entries" if not uncounted else f"entries, without {counted(uncounted, 'state')}"),
    ]


def _hidden(inspect: Mapping[str, Any]) -> list[str]:
    found = inspect.get("hidden")
    if found is None:
        return []
    states, operators = counted(found["states"], "state"), counted(found["operators"], "operator")
    return [f"{states} and {operators} of less than {human_bytes(found['min_bytes'])} are left out (--min-bytes)"]


def _operator_notes(inspect: Mapping[str, Any]) -> list[str]:
    """Return the notes of all operators, each with the operators that have it."""
    found: dict[str, list[str]] = {}
    for operator in inspect["operators"]:
        for note in operator["notes"]:
            found.setdefault(note, []).append(operator["uid"] or operator["uid_hash"])
    return [f"{some_of(names, 3)}: {note}" for note, names in found.items()]
