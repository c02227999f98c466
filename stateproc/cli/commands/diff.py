"""``stateproc diff``: compare two snapshots."""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, BinaryIO

import pyarrow as pa
from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stateproc.cli.arguments import choose_format, open_snapshot, option_values
from stateproc.cli.exit_status import NO, UNREADABLE, YES
from stateproc.cli.progress import progress
from stateproc.cli.row_output import output_stream, row_writer
from stateproc.cli.rows_table import cell
from stateproc.cli.terminal import print_json, show
from stateproc.codec.arrow_arrays import repeated_text
from stateproc.diff.change_rows import CHANGE_TYPE, KEY_COLUMNS, UPDATE_AFTER, UPDATE_BEFORE, ChangeCounts
from stateproc.diff.common_schema import RowForm
from stateproc.diff.snapshot_diff import OperatorDifference, SnapshotComparison, StateDifference, compare_snapshots
from stateproc.diff.state_changes import StateComparison
from stateproc.diff.structure import OperatorPair, PropertyChange, StatePair, operator_pairs
from stateproc.errors import InvalidOption, SnapshotError
from stateproc.html.units import counted, human_bytes
from stateproc.options import BY_NAME
from stateproc.row_formats.json_values import json_lines, json_values
from stateproc.row_formats.row_writers import RowWriter
from stateproc.snapshot.snapshot import Snapshot

# What ``stateproc diff`` does with changed rows: write them to a file, and keep some of each state to be shown.

_FACTS = (("key_group", pa.int32()), ("subtask", pa.int32()), ("service", pa.string()), ("timestamp", pa.int64()))
_TEXTS = ("key", "namespace", "map_key", "value")
_NAMES = ("operator", "state")


class ChangeFile:
    """Writes changed rows with the operator and the state that they belong to.

    With the rows of one state, columns have its types. Rows of several states have key, namespace, map_key and value as
    JSON text, because their types differ; JSON lines have each row as it is.

    Args:
        stream: Where to write.
        format_name: jsonl, csv, parquet or arrow.
        single: The columns of the only state; None if there are several.
    """

    def __init__(self, stream: BinaryIO, format_name: str, single: pa.Schema | None) -> None:
        self._is_text = single is None and format_name != "jsonl"
        self._writer: RowWriter = row_writer(format_name, stream, _TEXT_SCHEMA if single is None else _named(single))
        self.rows = 0

    def write(self, operator: OperatorPair, state: StatePair, batch: pa.RecordBatch) -> None:
        """Write changed rows of a state."""
        if self._is_text:
            batch = _as_text(batch)
        names = [repeated_text(text, len(batch)) for text in (operator.uid or operator.operator_id, state.name)]
        columns = [batch.column(0), *names, *batch.columns[1:]]
        fields = [batch.schema.field(0), *(pa.field(name, pa.string(), nullable=False) for name in _NAMES)]
        schema = pa.schema([*fields, *list(batch.schema)[1:]])
        self._writer.write(pa.RecordBatch.from_arrays(columns, schema=schema))
        self.rows += len(batch)

    def __enter__(self) -> ChangeFile:
        self._writer.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._writer.__exit__(kind, error, at)


def _named(schema: pa.Schema) -> pa.Schema:
    kind = pa.field(CHANGE_TYPE, pa.string(), nullable=False)
    return pa.schema([kind, *(pa.field(name, pa.string(), nullable=False) for name in _NAMES), *schema])


_TEXT_COLUMNS = pa.schema([*_FACTS, *((name, pa.string()) for name in _TEXTS)])
_TEXT_SCHEMA = _named(_TEXT_COLUMNS)


def _as_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of any state in the columns that all states have; what has none of them is in the value."""
    known = {CHANGE_TYPE, *(name for name, _ in _FACTS), *_TEXTS}
    others = [name for name in batch.schema.names if name not in known]
    columns = [batch.column(0)]
    for field in _TEXT_COLUMNS:
        at = batch.schema.get_field_index(field.name)
        if field.name == "value" and at < 0 and others:
            columns.append(_texts(list(json_lines(batch.select(others)))))
        elif at < 0:
            columns.append(pa.nulls(len(batch), field.type))
        elif field.name in _TEXTS:
            columns.append(_texts([_json(value) for value in json_values(batch.column(at))]))
        else:
            columns.append(batch.column(at).cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([batch.schema.field(0), *_TEXT_COLUMNS]))


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _texts(values: list[str | None]) -> pa.Array:
    return pa.array(values, pa.string())


def shown_changes(batch: pa.RecordBatch, limit: int) -> list[dict[str, Any]]:
    """Return the first changes of a batch: ``change``, the columns of the key, and the value ``before`` and ``after``.

    An update counts as one.
    """
    rows = batch.slice(0, 2 * limit)
    names = [name for name in rows.schema.names if name != CHANGE_TYPE]
    columns = {name: json_values(rows.column(name)) for name in names}
    keys = [name for name in KEY_COLUMNS if name in names]
    values = [name for name in names if name not in (*keys, "key_group", "subtask", "last_access")]
    found: list[dict[str, Any]] = []
    for row, change in enumerate(rows.column(CHANGE_TYPE).to_pylist()):
        value = _value({name: columns[name][row] for name in values})
        if change == UPDATE_AFTER:
            found[-1]["after"] = value
            continue
        if len(found) == limit:
            break
        is_after = change == "insert"
        shown = {"change": "update" if change == UPDATE_BEFORE else change}
        shown |= {name: columns[name][row] for name in keys}
        shown |= {"before": None if is_after else value, "after": value if is_after else None}
        found.append(shown)
    return found


def _value(values: dict[str, Any]) -> Any:
    return next(iter(values.values())) if set(values) == {"value"} else values or None


Shown = dict[tuple[str, str], list[dict[str, Any]]]
"""(Operator id, state) → the changes that are shown of it."""


def diff_command(arguments: Namespace) -> int:
    """Print what differs, and write the changed rows if that is asked for; return the exit status."""
    format_name = None
    if arguments.output is not None:
        format_name = choose_format(None, arguments.output, terminal=False)
    threads = option_values(arguments, (BY_NAME["threads"],))["threads"]
    left = open_snapshot(arguments)
    right = open_snapshot(arguments, path=arguments.other)
    shown: Shown = {}
    started = time.monotonic()
    with ExitStack() as stack:
        file = None
        if format_name is not None:
            single = _only_schema(left, right, arguments)
            stream = stack.enter_context(output_stream(arguments.output))
            file = stack.enter_context(ChangeFile(stream, format_name, single))
        planned = stack.enter_context(_progress())
        found = compare_snapshots(
            left,
            right,
            uids=arguments.uid,
            states=arguments.state,
            times=arguments.last_access,
            threads=threads,
            rows=_sink(file, shown, arguments.rows),
            planned=planned,
        )
    _print(arguments, found, shown, left, right)
    if file is not None:
        print(f"{file.rows:,} rows to {arguments.output} ({time.monotonic() - started:.1f} s)", file=sys.stderr)
    if not found.is_readable:
        return UNREADABLE
    return NO if found.is_different else YES


def _only_schema(left: Snapshot, right: Snapshot, arguments: Namespace) -> pa.Schema | None:
    """Return the columns of the only state that is compared; None if there are several."""
    pairs = operator_pairs(left, right, arguments.uid, arguments.state)
    states = [pair for operator in pairs for pair in operator.states]
    if len(states) != 1:
        return None
    try:
        return StateComparison(states[0].left, states[0].right, RowForm(times=arguments.last_access)).schema
    except SnapshotError as error:
        raise InvalidOption(f"--output: {error.message}", advice=error.advice) from error


def _sink(
    file: ChangeFile | None, shown: Shown, limit: int
) -> Callable[[OperatorPair, StatePair, pa.RecordBatch], None] | None:
    if file is None and not limit:
        return None

    def rows(operator: OperatorPair, state: StatePair, batch: pa.RecordBatch) -> None:
        if file is not None:
            file.write(operator, state, batch)
        kept = shown.setdefault((operator.operator_id, state.name), [])
        if len(kept) < limit:
            kept += shown_changes(batch, limit - len(kept))

    return rows


@contextmanager
def _progress() -> Iterator[Callable[[int], Callable[[int], None]]]:
    """Yield a function that begins to show progress once the number of bytes is known."""
    with ExitStack() as stack:
        yield lambda total: stack.enter_context(progress("comparing", total))


def _print(arguments: Namespace, found: SnapshotComparison, shown: Shown, left: Snapshot, right: Snapshot) -> None:
    if arguments.json:
        report = found.to_dict()
        for operator, item in zip(report["operators"], found.operators, strict=True):
            for state in operator["states"]:
                state["changes"] = shown.get((item.operator_id, state["state"]), [])
        print_json(report)
        return
    show(diff_view(found, shown, (left.kind, right.kind), summary=arguments.summary))


# Show what differs between two snapshots.

_MARKS = {
    **dict.fromkeys(("added", "insert"), ("+", "green")),
    **dict.fromkeys(("removed", "delete"), ("-", "red")),
    **dict.fromkeys(("changed", "update"), ("~", "yellow")),
    "equal": ("=", "dim"),
    "not comparable": ("?", "magenta"),
    "unreadable": ("!", "bold red"),
}
_LONGEST = 300


def diff_view(
    found: SnapshotComparison,
    shown: Mapping[tuple[str, str], Sequence[dict[str, Any]]],
    kinds: tuple[str, str],
    *,
    summary: bool = False,
) -> Group:
    """Return a comparison as something that rich can print. ``summary``: one line per operator."""
    parts: list[RenderableType] = [
        Text.assemble(("- ", "red"), (kinds[0], "dim"), f"  {found.left}"),
        Text.assemble(("+ ", "green"), (kinds[1], "dim"), f"  {found.right}"),
    ]
    if summary:
        parts += [Text(), _summary(found)]
    else:
        for operator in found.operators:
            parts += _operator(operator, shown)
        parts += _equal_operators(found)
    parts += [Text(), _verdict(found)]
    return Group(*parts)


def _mark(status: str) -> Text:
    sign, style = _MARKS[status]
    return Text(sign, style)


def _heading(operator: OperatorDifference) -> Text:
    text = _mark(operator.status) + Text(f" {operator.display}", "bold")
    if operator.name and operator.name != operator.uid:
        text.append(f"  {operator.name}", "italic")
    if operator.status in ("added", "removed"):
        text.append(f"  {operator.status}", _MARKS[operator.status][1])
    return text


def _is_shown(operator: OperatorDifference) -> bool:
    states = any(state.status != "equal" or state.properties for state in operator.states)
    return bool(operator.is_different or operator.properties or operator.problems or states)


def _operator(
    operator: OperatorDifference, shown: Mapping[tuple[str, str], Sequence[dict[str, Any]]]
) -> list[RenderableType]:
    if not _is_shown(operator):
        return []
    lines: list[RenderableType] = [_property(item) for item in operator.properties]
    lines += [Text(f"! {problem}", "red") for problem in operator.problems]
    states = [state for state in operator.states if state.status != "equal" or state.properties]
    if states:
        lines.append(_states(states))
    for state in states:
        lines += _state_lines(state)
        changes = shown.get((operator.operator_id, state.name))
        if changes:
            lines.append(_changes(state, changes))
    equal = len(operator.states) - len(states)
    if equal and operator.states:
        lines.append(Text(f"{counted(equal, 'state')} equal", "dim"))
    return [Text(), _heading(operator), Padding(Group(*lines), (0, 0, 0, 2))]


def _states(states: Sequence[StateDifference]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    table.add_column("state", style="bold", overflow="fold")
    table.add_column("kind", style="dim", no_wrap=True)
    for heading in ("added", "removed", "changed", "equal", "bytes"):
        table.add_column(heading, justify="right", no_wrap=True)
    for state in states:
        kind = "" if state.kind == state.name else state.kind
        table.add_row(_mark(state.status), cell(state.name), kind, *_numbers(state.counts))
    return table


def _numbers(counts: ChangeCounts | None) -> list[Text]:
    if counts is None:
        return [Text("–", "dim")] * 5
    changes = ((counts.inserted, "+", "green"), (counts.deleted, "-", "red"), (counts.updated, "~", "yellow"))
    found = [Text(f"{sign}{number:,}", style) if number else Text("0", "dim") for number, sign, style in changes]
    found.append(Text(f"{counts.equal:,}"))
    if counts.left_bytes is None or counts.right_bytes is None:
        return [*found, Text("–", "dim")]
    before, after = human_bytes(counts.left_bytes), human_bytes(counts.right_bytes)
    return [*found, Text(after if before == after else f"{before} → {after}")]


def _property(item: PropertyChange) -> Text:
    if item.left is None and item.right is None:
        return Text(f"{item.name} differs", "dim")
    text = Text(f"{item.name}: ", "dim" if item.layout else "yellow")
    text.append(_short(item.left), "red")
    text.append(" → ")
    text.append(_short(item.right), "green")
    return text


def _short(value: Any) -> str:
    text = "none" if value is None else "yes" if value is True else "no" if value is False else str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _state_lines(state: StateDifference) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for item in state.properties:
        lines.append(Text(f"{state.name}  ", "bold") + _property(item))
    if state.problem is not None:
        lines.append(Text(f"{state.name}  ", "bold") + Text(str(state.problem), "red"))
    return lines


def _changes(state: StateDifference, changes: Sequence[dict[str, Any]]) -> Table:
    counts = state.counts
    rest = 0 if counts is None else counts.changed - len(changes)
    caption = f"{rest:,} more in {state.name}" if rest else None
    title = Text(state.name, "bold")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    table.caption, table.caption_justify, table.caption_style = caption, "left", "dim"
    # Timers and elements of operator states have no value besides what identifies them.
    names = [name for name in changes[0] if name in ("change", *KEY_COLUMNS) or any(item[name] for item in changes)]
    for name in names:
        style = {"before": "red", "after": "green"}.get(name, "")
        table.add_column("" if name == "change" else name, style=style, overflow="fold")
    for change in changes:
        table.add_row(_mark(change["change"]), *(_shown_value(change[name]) for name in names[1:]))
    return table


def _shown_value(value: Any) -> Text:
    return Text('""', "dim") if value == "" else cell(value)


def _equal_operators(found: SnapshotComparison) -> list[RenderableType]:
    equal = [operator for operator in found.operators if not _is_shown(operator)]
    if not equal or len(equal) == len(found.operators):
        return []
    return [Text(), Text(f"= {counted(len(equal), 'operator')} equal", "dim")]


def _summary(found: SnapshotComparison) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", "operator"):
        table.add_column(name, overflow="fold")
    table.add_column("states", no_wrap=True)
    for name in ("added", "removed", "changed", "equal"):
        table.add_column(name, justify="right")
    for operator in found.operators:
        total, differing = ChangeCounts(), 0
        for state in operator.states:
            total += state.counts or ChangeCounts()
            differing += state.status != "equal"
        states = f"{differing} of {len(operator.states)} differ" if operator.states else "–"
        table.add_row(_mark(operator.status), Text(operator.display, "bold"), states, *_numbers(total)[:4])
    return table


def _verdict(found: SnapshotComparison) -> Text:
    total = found.counts
    if found.equal:
        return Text(f"equal: {counted(total.right, 'entry', 'entries')} in {_states_of(found)}", "bold green")
    numbers = f"{total.inserted:,} added, {total.deleted:,} removed, {total.updated:,} changed, {total.equal:,} equal"
    if found.is_readable:
        return Text(f"different: {numbers}", "bold yellow")
    failed = sum(state.status == "unreadable" for operator in found.operators for state in operator.states)
    text = f"not everything could be read ({counted(failed, 'state')}); of the rest: {numbers}"
    return Text(text, "bold red")


def _states_of(found: SnapshotComparison) -> str:
    states = sum(len(operator.states) for operator in found.operators)
    return f"{counted(states, 'state')} of {counted(len(found.operators), 'operator')}"
