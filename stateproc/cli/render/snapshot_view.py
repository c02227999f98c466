"""Show the report of ``inspect``: a panel, and per operator a table of its states."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from stateproc.cli.render.bars import bar, human_bytes, sparkline
from stateproc.cli.render.operator_lines import counted, stateless_line, summary_table
from stateproc.model.raw_keyed import raw_keyed_text
from stateproc.reports.inspect_report import by_size, is_stateless

_KINDS = {
    "value": "green", "list": "cyan", "map": "blue", "reducing": "magenta", "aggregating": "magenta",
    "event timers": "yellow", "processing timers": "yellow", "broadcast": "cyan",
}  # fmt: skip
_BAR = 8
_MANY = 20
_SHOWN_NAMES = 10
"""States that share a reason, by name."""
_HASHES = (
    "Flink 1.x stores hashes, not uids: --uids a,b or --uids @plan.json names operators; 4 digits of a hash select one."
)


def snapshot_view(report: dict[str, Any], *, summary: bool = False, fold: bool = True) -> Group:
    """Return the report as something that rich can print: operators and states with the most bytes first.

    Args:
        report: The report of ``inspect``.
        summary: One line per operator.
        fold: Operators without state share one line.
    """
    operators = by_size(report["operators"])
    stateless = [operator for operator in operators if is_stateless(operator)] if fold else []
    shown = [operator for operator in operators if operator not in stateless] if stateless else operators
    parts: list[RenderableType] = [_head(report)]
    if summary:
        parts.append(summary_table(shown, sum(operator["bytes"] for operator in operators)))
    else:
        for operator in shown:
            parts += [Text(), *_operator(operator)]
        parts += [Text()] if stateless else []
    if stateless:
        parts.append(stateless_line(stateless))
    hidden = report.get("hidden")
    if hidden and (hidden["operators"] or hidden["states"]):
        what = f"{counted(hidden['operators'], 'operator')} and {counted(hidden['states'], 'state')} of others"
        parts.append(Text(f"not shown: {what}, under {human_bytes(hidden['min_bytes'])}", "dim"))
    if not summary and len(shown) > _MANY:
        parts.append(Text("\n--summary shows one line per operator, --min-bytes 10MB only large ones.", "dim"))
    if any(operator["uid"] is None for operator in report["operators"]):
        parts.append(Text(f"\n{_HASHES}", "dim"))
    return Group(*parts)


def _operator(operator: dict[str, Any]) -> list[RenderableType]:
    lines: list[RenderableType] = list(_details(operator))
    if operator["states"]:
        lines.append(_states(operator))
    lines += [Text(note, "dim") for note in operator["notes"]]
    lines += _problems(operator)
    return [_operator_line(operator), Padding(Group(*lines), (0, 0, 0, 2))]


def _head(report: dict[str, Any]) -> Panel:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    unreadable, unlisted = report["unreadable_states"], report["unlisted_operators"]
    grid.add_row("path", Text(report["path"]))
    if report["note"]:
        grid.add_row("note", Text(report["note"]))
    grid.add_row("kind", Text(report["kind"], "bold"))
    grid.add_row("Flink", f"{report['flink_versions']}  (metadata V{report['metadata_version']})")
    grid.add_row("id", str(report["checkpoint_id"]))
    states = counted(report["state_count"], "state") + (f" ({unreadable} unreadable)" if unreadable else "")
    operators = counted(report["operator_count"], "operator")
    grid.add_row("holds", f"{operators}, {states}, {human_bytes(report['bytes'])}")
    if unlisted:
        grid.add_row("", Text(f"the states of {counted(unlisted, 'operator')} cannot be listed", "red"))
    for master in report["master_states"]:
        grid.add_row("master", Text(f"{master['name']} v{master['version']}, {human_bytes(master['bytes'])}"))
    return Panel(grid, box=box.ROUNDED, border_style="dim", expand=False)


def _operator_line(operator: dict[str, Any]) -> Text:
    text = Text(operator["uid"] or operator["uid_hash"], "bold")
    name = operator["name"] or operator["label"]
    if name and name != operator["uid"]:
        text.append(f"  {name}", "italic")
    if operator["uid"]:
        text.append(f"  {operator['uid_hash']}", "dim")
    return text


def _details(operator: dict[str, Any]) -> list[Text]:
    facts = [f"parallelism {operator['parallelism']} of {operator['max_parallelism']}"]
    facts += [f"{' and '.join(operator['layouts'])} keyed state"] if operator["layouts"] else []
    facts.append(human_bytes(operator["bytes"]))
    if operator["channel_bytes"]:
        facts.append(f"{human_bytes(operator['channel_bytes'])} in flight")
    if operator["raw_keyed"]:
        facts.append(raw_keyed_text(operator["raw_keyed"]["bytes"], operator["raw_keyed"]["key_groups"]))
    if operator["finished"]:
        facts.append("finished")
    elif operator["finished_subtasks"]:
        facts.append(f"{counted(len(operator['finished_subtasks']), 'subtask')} finished")
    lines = [Text(" · ".join(facts), "dim")]
    if operator["coordinator"] is not None:
        lines.append(_coordinator(operator["coordinator"]))
    if len(operator["key_group_bytes"]) > 1:
        lines.append(_skew(operator))
    return lines


def _coordinator(coordinator: dict[str, Any]) -> Text:
    text = Text("coordinator ", "dim")
    decoded = coordinator.get("decoded")
    if coordinator.get("format") == "kafka" and decoded:
        topics: dict[str, int] = {}
        for item in decoded["partitions"]:
            topics[item["topic"]] = topics.get(item["topic"], 0) + 1
        text.append(
            "Kafka: " + ", ".join(f"{topic} ({counted(n, 'partition')})" for topic, n in sorted(topics.items()))
        )
    else:
        text.append(f"{coordinator['kind']} of an unknown format")
    return text


def _skew(operator: dict[str, Any]) -> Text:
    """Bytes by key group: a line of columns, and the ratio of the largest to the mean."""
    sizes = operator["key_group_bytes"]
    line = [sizes.get(key_group, 0) for key_group in range(operator["max_parallelism"])]
    largest = max(sizes, key=lambda key_group: sizes[key_group])
    mean = sum(sizes.values()) / len(sizes)
    # Native heap files have a few bytes for every key group, with or without keys.
    empty = min(sizes.values()) if "heap" in operator["layouts"] else 0
    holding = sum(size > empty for size in sizes.values())
    text = Text("key groups ", "dim")
    text.append(sparkline([size - empty for size in line]), "cyan")
    text.append(
        f"  {holding} of {len(line)} hold data, largest {largest} ({sizes[largest] / mean:.1f}× mean)",
        "dim",
    )
    return text


def _states(operator: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    for name in ("state", "kind", "key", "value"):
        table.add_column(name, overflow="fold")
    table.add_column("entries", justify="right")
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("share", no_wrap=True)
    total = sum(state["bytes"] or 0 for state in operator["states"])
    for state in by_size(operator["states"]):
        table.add_row(*_state_cells(state, total))
    return table


def _state_cells(state: dict[str, Any], total: int) -> list[Text]:
    name = Text(state["name"], "red" if state["problem"] else "bold")
    kind = Text(state["kind"], _KINDS.get(state["kind"], ""))
    if state["distribution"] in ("split", "union"):
        kind = Text(f"{state['distribution']} {state['kind']}", "cyan")
    if state["ttl"]:
        kind.append(" ttl", "yellow")
    key = Text(state["key_type"] or "–")
    if state["namespace_type"]:
        key.append(f" @ {state['namespace_type']}", "dim")
    entries = "–" if state["entries"] is None else f"{state['entries']:,}"
    share = (state["bytes"] or 0) / total if total else 0.0
    drawn = Text("–" if state["bytes"] is None else f"{bar(share, _BAR)} {share:4.0%}", "green" if share else "dim")
    return [
        name,
        kind,
        key,
        Text(state["value_type"] or "–"),
        Text(entries),
        Text(human_bytes(state["bytes"])),
        drawn,
    ]


def _problems(operator: dict[str, Any]) -> list[Text]:
    """Return why states cannot be read, one line for all that share a reason."""
    reasons: dict[str, list[str]] = {problem: [] for problem in operator["problems"]}
    for state in operator["states"]:
        if state["problem"]:
            # Many reasons differ by the state's name only.
            named = f"'{state['name']}'"
            reason = state["problem"].replace(f", state {named}", "").replace(f"state {named}", "the state")
            reasons.setdefault(reason, []).append(state["name"])
    lines = []
    for reason, names in reasons.items():
        shown = ", ".join(names[:_SHOWN_NAMES])
        if len(names) > _SHOWN_NAMES:
            shown += f" and {len(names) - _SHOWN_NAMES} more"
        lines.append(Text.assemble(("✗ ", "red"), (shown, "red"), ": " if names else "", reason))
    return lines
