"""Draw what an export wrote."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stateproc.cli.render.bars import human_bytes
from stateproc.export.manifest import COMPLETE, ExportedState, ExportManifest

_COLORS = {COMPLETE: "green", "partial": "yellow", "unreadable": "red", "incomplete": "yellow"}


def export_view(manifest: ExportManifest) -> RenderableType:
    """Return a table of the exported states and a line with the totals."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    for name in ("operator", "state", "kind"):
        table.add_column(name, overflow="fold")
    for name in ("rows", "bytes", "files"):
        table.add_column(name, justify="right")
    if any(state.status != COMPLETE for state in manifest.states):
        table.add_column("status")
    shown: str | None = None
    for state in manifest.states:
        table.add_row(*_cells(state, state.operator == shown)[: len(table.columns)])
        shown = state.operator
    return Group(table, Text(_totals(manifest), style="bold"))


def _cells(state: ExportedState, is_repeated: bool) -> list[Text]:
    return [
        Text("" if is_repeated else _printable(state.operator or "–")),
        Text(_printable(state.state), "bold"),
        Text(state.kind, "dim"),
        Text(f"{state.rows:,}" if state.files else "–"),
        Text(human_bytes(state.bytes) if state.files else "–"),
        Text(str(len(state.files))),
        Text(state.status, _COLORS.get(state.status, "")),
    ]


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else "�" for sign in text)


def _totals(manifest: ExportManifest) -> str:
    files = sum(len(state.files) for state in manifest.states)
    seconds = manifest.seconds or 0
    counted = f"{manifest.rows:,} rows, {human_bytes(manifest.bytes)} in {files:,} file{'' if files == 1 else 's'}"
    return f"{counted} of {manifest.settings.format} in {manifest.directory} ({seconds:.1f} s)"
