"""``stateproc diff``: compare two snapshots."""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa

from stateproc.cli.arguments import open_snapshot, option_values
from stateproc.cli.change_rows import ChangeFile, shown_changes
from stateproc.cli.exit_status import NO, UNREADABLE, YES
from stateproc.cli.output_format import choose_format
from stateproc.cli.progress import progress
from stateproc.cli.row_output import output_stream
from stateproc.diff.common_schema import RowForm
from stateproc.diff.snapshot_diff import SnapshotComparison, compare_snapshots
from stateproc.diff.state_changes import StateComparison
from stateproc.diff.structure import OperatorPair, StatePair, operator_pairs
from stateproc.errors import InvalidOption, SnapshotError
from stateproc.options import BY_NAME
from stateproc.snapshot.snapshot import Snapshot

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
        json.dump(report, sys.stdout, ensure_ascii=False, indent=2)
        print()
        return
    from stateproc.cli.render.diff_view import diff_view
    from stateproc.cli.render.terminal import show

    show(diff_view(found, shown, (left.kind, right.kind), summary=arguments.summary))
