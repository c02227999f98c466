"""``stateproc inspect``: show operators, states, types and sizes of a snapshot."""

from __future__ import annotations

import sys
from argparse import Namespace
from copy import copy
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from stateproc.cli.arguments import open_snapshot, option_values
from stateproc.cli.operator_tables import stateless_line, summary_table
from stateproc.cli.progress import progress
from stateproc.cli.terminal import bar, print_json, show, sparkline, text_table
from stateproc.errors import InvalidOption, SnapshotError
from stateproc.html.units import counted, human_bytes, some_of
from stateproc.model.operator import Operator
from stateproc.model.raw_keyed import raw_keyed_text
from stateproc.options import BY_NAME
from stateproc.options.parsers import byte_size
from stateproc.reports.inspect_report import by_size, is_stateless, snapshot_report, without_small
from stateproc.reports.state_sizes import OperatorSizes, is_small_enough, operator_sizes
from stateproc.snapshot.snapshot import Snapshot


def inspect_command(arguments: Namespace) -> int:
    """Print the report, as text or as JSON; return the exit status."""
    snapshot = open_snapshot(arguments, show_note=False)
    operators = [snapshot.operator(uid) for uid in arguments.uid] or list(snapshot.operators)
    if arguments.html is not None and arguments.rocksdb:
        raise InvalidOption("--html with --rocksdb", advice="the page shows RocksDB tables without --rocksdb")
    if arguments.rocksdb:
        return _inspect_rocksdb(arguments, snapshot, operators)
    if arguments.since is not None:
        raise InvalidOption("--since without --rocksdb", advice="give --rocksdb, too, to compare two checkpoints")
    min_bytes = None if arguments.min_bytes is None else _byte_size(arguments.min_bytes)
    threads = option_values(arguments, (BY_NAME["threads"],))["threads"]
    # All files are opened for the total, which only a terminal shows.
    total = _bytes_to_count(operators, arguments.scan) if sys.stderr.isatty() else 0
    with progress("counting entries", total) as advance:

        def sizes(operator: Operator) -> OperatorSizes:
            return operator_sizes(operator, scan=arguments.scan, advance=advance, threads=threads)

        # Each operator is a copy that keeps what was found out about its files only as long as it is reported on. The
        # page needs it again.
        given = map(copy, operators) if arguments.html is None else operators
        report = snapshot_report(snapshot, given, sizes)
    if min_bytes is not None:
        report = without_small(report, min_bytes)
    if arguments.html is not None:
        # Lazy: start-up.
        from stateproc.cli.commands.inspect_page import write_page

        write_page(arguments.html, snapshot, operators, report, scan=arguments.scan, threads=threads)
        if not arguments.json or arguments.html == "-":
            return 0
    if arguments.json:
        print_json(report)
        return 0
    show(snapshot_view(report, summary=arguments.summary, fold=not arguments.uid))
    return 0


def _byte_size(text: str) -> int:
    try:
        return byte_size(text)
    except ValueError as error:
        raise InvalidOption(f"--min-bytes {text}", advice=f"give {error}") from error


def _inspect_rocksdb(arguments: Namespace, snapshot: Snapshot, operators: list[Operator]) -> int:
    from stateproc.reports.rocksdb_report import rocksdb_report

    since = None if arguments.since is None else open_snapshot(arguments, path=arguments.since, show_note=False)
    report = rocksdb_report(snapshot, operators, since)
    if arguments.json:
        print_json(report)
        return 0
    show(rocksdb_view(report))
    return 0


def _bytes_to_count(operators: list[Operator], scan: bool) -> int:
    total = 0
    for operator in map(copy, operators):
        for file in operator.keyed_files:
            try:
                # Only files of key groups have ranges. Their layout, which does not matter, would be read from each.
                total += file.data_bytes if file.ranges and is_small_enough(file, scan) else 0
            except SnapshotError:
                continue  # the report lists it as a problem
    return total


# Show the report of ``inspect``: a panel, and per operator a table of its states.

_KINDS = {
    "value": "green",
    "list": "cyan",
    "map": "blue",
    "reducing": "magenta",
    "aggregating": "magenta",
    "event timers": "yellow",
    "processing timers": "yellow",
    "broadcast": "cyan",
}
_BAR = 8
_MANY = 20
_SHOWN_NAMES = 10
"""States that share a reason, by name."""
_HASHES = (
    "Flink 1.x stores hashes, not uids: --uids a,b or --uids @plan.json names operators; 4 digits of a hash select one."
)


def snapshot_view(report: dict[str, Any], *, summary: bool = False, fold: bool = True) -> Group:
    """Return the report as something that rich can print: operators and states with the most bytes first.

    ``summary``: one line per operator; ``fold``: those without state share one.
    """
    operators = by_size(report["operators"])
    stateless = [operator for operator in operators if is_stateless(operator)] if fold else []
    shown = [operator for operator in operators if operator not in stateless] if stateless else operators
    parts: list[RenderableType] = [_head(report)]
    if summary:
        parts.append(summary_table(shown, sum(operator["bytes"] for operator in operators)))
    else:
        said: set[str] = set()
        for operator in shown:
            parts += [Text(), *_operator(operator, said)]
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


def _operator(operator: dict[str, Any], said: set[str]) -> list[RenderableType]:
    lines: list[RenderableType] = list(_details(operator))
    if operator["states"]:
        lines.append(_states(operator))
    lines += [Text(note, "dim") for note in operator["notes"]]
    lines += _problems(operator, said)
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
    elif coordinator.get("format"):
        text.append(f"source of {coordinator['format']}")
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
    table = text_table("state", "kind", "key", "value", numbers=("entries",))
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


def _problems(operator: dict[str, Any], said: set[str]) -> list[Text]:
    """Return why states cannot be read, one line for all that share a reason; advice that was ``said`` is left out."""
    reasons: dict[str, list[str]] = {problem: [] for problem in operator["problems"]}
    for state in operator["states"]:
        if state["problem"]:
            # Many reasons differ by the state's name only.
            named = f"'{state['name']}'"
            reason = state["problem"].replace(f", state {named}", "").replace(f"state {named}", "the state")
            reasons.setdefault(reason, []).append(state["name"])
    lines = []
    for reason, names in reasons.items():
        shown = some_of(names, _SHOWN_NAMES)
        text = reason.partition("\n")[0] if reason in said else reason
        lines.append(Text.assemble(("✗ ", "red"), (shown, "red"), ": " if names else "", text))
        said.add(reason)
    return lines


# Show the report of ``inspect --rocksdb``: per operator a table of its states.

_MOSTLY_DEAD = 0.5
_LEFT_ALIGNED = ("files", "compression", "keys from", "to")
_COLUMNS = ("files", "bytes", "entries", "deleted", "operands", "raw", "live", "compression", "keys from", "to")
_DATE = len("2026-01-31")


def rocksdb_view(report: dict[str, Any]) -> Group:
    """Return the report as something that rich can print."""
    parts: list[RenderableType] = [_rocksdb_head(report)]
    for operator in report["operators"]:
        title = Text(operator["uid"] or operator["uid_hash"], "bold")
        name = operator["name"] or operator["label"]
        if name and name != operator["uid"]:
            title.append(f"  {name}", "italic")
        lines: list[RenderableType] = []
        if operator["states"]:
            lines.append(_rocksdb_states(operator["states"], compared=report["since"] is not None))
        lines += [Text.assemble(("✗ ", "red"), problem) for problem in operator["problems"]]
        parts += [Text(), title, Padding(Group(*lines), (0, 0, 0, 2))]
    return Group(*parts)


def _rocksdb_head(report: dict[str, Any]) -> Text:
    text = Text.assemble((f"checkpoint {report['checkpoint_id']}", "bold"), f"  {report['path']}")
    if report["since"] is not None:
        text.append(f"\nsince {report['since_checkpoint_id']}  {report['since']}")
    return text


def _rocksdb_states(states: list[dict[str, Any]], *, compared: bool) -> Table:
    table = text_table("state")
    for name in (*(("new",) if compared else ()), *_COLUMNS):
        table.add_column(name, justify="left" if name in _LEFT_ALIGNED else "right", no_wrap=True)
    for state in states:
        new = [_new(state)] if compared else []
        table.add_row(Text(state["state"], "bold"), *new, *_cells(state))
    return table


def _new(state: dict[str, Any]) -> Text:
    if not state["new_files"]:
        return Text("–", "dim")
    return Text(f"{state['new_files']:,}, {human_bytes(state['new_bytes'])}", "yellow")


def _cells(state: dict[str, Any]) -> list[Text]:
    deleted = f"{state['deletions']:,}"
    if state["range_deletions"]:
        deleted += f" + {state['range_deletions']:,} ranges"
    live = state["live_ratio"]
    return [
        _files(state),
        Text(human_bytes(state["bytes"])),
        Text(f"{state['entries']:,}"),
        Text(deleted),
        Text(f"{state['merge_operands']:,}"),
        Text(human_bytes(state["raw_key_bytes"] + state["raw_value_bytes"])),
        Text("–") if live is None else Text(f"{live:.0%}", "green" if live > _MOSTLY_DEAD else "red"),
        Text(", ".join(state["compressions"]) or "–"),
        Text((state["oldest_key_time"] or "–")[:_DATE]),
        Text((state["newest_key_time"] or "–")[:_DATE]),
    ]


def _files(state: dict[str, Any]) -> Text:
    """Return the number of files, in all and per level."""
    text = Text(f"{state['files']:,}")
    levels = " ".join(f"L{level}:{files}" for level, files in state["levels"].items())
    return text.append(f"  {levels}", "dim") if levels else text
