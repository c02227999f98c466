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

_KINDS = {
    "value": "green", "list": "cyan", "map": "blue", "reducing": "magenta", "aggregating": "magenta",
    "event timers": "yellow", "processing timers": "yellow", "broadcast": "cyan",
}  # fmt: skip
_BAR = 8
_HASHES = (
    "Flink 1.x stores hashes, not uids: --uids a,b or --uids @plan.json names operators; 4 digits of a hash select one."
)


def snapshot_view(report: dict[str, Any]) -> Group:
    """Return the report as something that rich can print."""
    parts: list[RenderableType] = [_head(report)]
    for operator in report["operators"]:
        lines: list[RenderableType] = list(_details(operator))
        if operator["states"]:
            lines.append(_states(operator))
        lines += [Text(note, "dim") for note in operator["notes"]]
        lines += _problems(operator)
        parts += [Text(), _operator_line(operator), Padding(Group(*lines), (0, 0, 0, 2))]
    if any(operator["uid"] is None for operator in report["operators"]):
        parts.append(Text(f"\n{_HASHES}", "dim"))
    return Group(*parts)


def _head(report: dict[str, Any]) -> Panel:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    states = sum(len(operator["states"]) for operator in report["operators"])
    unreadable = sum(operator["unreadable_states"] for operator in report["operators"])
    grid.add_row("path", Text(report["path"]))
    if report["note"]:
        grid.add_row("note", Text(report["note"]))
    grid.add_row("kind", Text(report["kind"], "bold"))
    grid.add_row("Flink", f"{report['flink_versions']}  (metadata V{report['metadata_version']})")
    grid.add_row("id", str(report["checkpoint_id"]))
    counted = _counted(states, "state") + (f" ({unreadable} unreadable)" if unreadable else "")
    operators = _counted(len(report["operators"]), "operator")
    grid.add_row("holds", f"{operators}, {counted}, {human_bytes(report['bytes'])}")
    for master in report["master_states"]:
        grid.add_row("master", Text(f"{master['name']} v{master['version']}, {human_bytes(master['bytes'])}"))
    return Panel(grid, box=box.ROUNDED, border_style="dim", expand=False)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


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
    if operator["finished"]:
        facts.append("finished")
    elif operator["finished_subtasks"]:
        facts.append(f"{_counted(len(operator['finished_subtasks']), 'subtask')} finished")
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
            "Kafka: " + ", ".join(f"{topic} ({_counted(n, 'partition')})" for topic, n in sorted(topics.items()))
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
    for state in operator["states"]:
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
    reasons: dict[str, list[str]] = {}
    for state in operator["states"]:
        if state["problem"]:
            # The positions differ by the state's name only.
            reason = state["problem"].replace(f", state '{state['name']}'", "")
            reasons.setdefault(reason, []).append(state["name"])
    lines = []
    for reason, names in reasons.items():
        lines.append(Text.assemble(("✗ ", "red"), (", ".join(names), "red"), ": ", reason))
    return lines + [Text.assemble(("✗ ", "red"), problem) for problem in operator["problems"]]
