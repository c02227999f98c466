"""``stateproc export``: write states into a directory."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack

from rich.console import Group, RenderableType
from rich.text import Text

from stateproc.cli.arguments import open_snapshot, option_values
from stateproc.cli.exit_status import NO, YES
from stateproc.cli.progress import progress
from stateproc.cli.terminal import print_json, show, text_table, without_controls
from stateproc.export.manifest import COMPLETE, ExportedState, ExportManifest
from stateproc.html.units import human_bytes
from stateproc.options import BY_NAME, ROW_OPTIONS, Interface


def export_command(arguments: Namespace) -> int:
    """Export the states that the arguments select; return the exit status, 1 if something could not be read."""
    snapshot = open_snapshot(arguments)
    rows = option_values(arguments, ROW_OPTIONS)
    with ExitStack() as stack:

        def start(total: int) -> Callable[[int], None]:
            return stack.enter_context(progress(f"exporting to {arguments.output}", total))

        manifest = snapshot.export(
            arguments.output,
            format=arguments.format,
            uids=arguments.uid,
            states=arguments.state,
            compression=arguments.compression,
            temporal=arguments.temporal,
            raw=rows["raw"],
            flatten=rows["flatten"],
            key_group_ranges=arguments.key_group_ranges,
            threads=rows["threads"],
            overwrite=arguments.overwrite,
            storage_options=_storage_options(arguments.output_storage_options),
            _start=start,
        )
    if arguments.json:
        print_json(manifest.to_dict())
    else:
        show(export_view(manifest))
    for problem in (*(state.problem for state in manifest.unreadable), *manifest.problems):
        print(f"not exported: {problem}", file=sys.stderr)
    return NO if manifest.unreadable or manifest.problems else YES


def _storage_options(given: list[str] | None) -> dict[str, object] | None:
    if given is None:
        return None
    option = BY_NAME["storage_options"]
    return {name: value for text in given for name, value in option.value(text, Interface.CLI).items()}


# Draw what an export wrote.

_COLORS = {COMPLETE: "green", "partial": "yellow", "unreadable": "red", "incomplete": "yellow"}


def export_view(manifest: ExportManifest) -> RenderableType:
    """Return a table of the exported states and a line with the totals."""
    table = text_table("operator", "state", "kind", numbers=("rows", "bytes", "files"))
    if any(state.status != COMPLETE for state in manifest.states):
        table.add_column("status")
    shown: str | None = None
    for state in manifest.states:
        table.add_row(*_cells(state, state.operator == shown)[: len(table.columns)])
        shown = state.operator
    return Group(table, Text(_totals(manifest), style="bold"))


def _cells(state: ExportedState, is_repeated: bool) -> list[Text]:
    return [
        Text("" if is_repeated else without_controls(state.operator or "–")),
        Text(without_controls(state.state), "bold"),
        Text(state.kind, "dim"),
        Text(f"{state.rows:,}" if state.files else "–"),
        Text(human_bytes(state.bytes) if state.files else "–"),
        Text(str(len(state.files))),
        Text(state.status, _COLORS.get(state.status, "")),
    ]


def _totals(manifest: ExportManifest) -> str:
    files = sum(len(state.files) for state in manifest.states)
    seconds = manifest.seconds or 0
    counted = f"{manifest.rows:,} rows, {human_bytes(manifest.bytes)} in {files:,} file{'' if files == 1 else 's'}"
    return f"{counted} of {manifest.settings.format} in {manifest.directory} ({seconds:.1f} s)"
