"""``stateproc read``: print or write the rows of a state."""

from __future__ import annotations

from argparse import Namespace

from stateproc.cli.arguments import open_snapshot, option_values
from stateproc.cli.exit_status import YES
from stateproc.cli.row_output import chosen_format, temporal_of, write_scan
from stateproc.errors import SnapshotError
from stateproc.model.operator_state import opened_state
from stateproc.model.state import FilteredScan
from stateproc.options import ROW_OPTIONS, SELECT_OPTIONS, Interface
from stateproc.snapshot.selection import StateSelection, select_operator, select_state


def read_command(arguments: Namespace) -> int:
    """Print or write the rows that the arguments ask for; return the exit status."""
    format_name = chosen_format(arguments)
    selection = StateSelection.of(option_values(arguments, SELECT_OPTIONS), Interface.CLI)
    rows = option_values(arguments, ROW_OPTIONS)
    snapshot = open_snapshot(arguments, temporal_of(arguments, format_name))
    state = select_state(select_operator(snapshot, selection), selection, single=True)
    if not rows["raw"]:
        state = opened_state(state)
    scan = FilteredScan(state, arguments.where, rows["columns"], rows["flatten"], threads=rows["threads"])
    try:
        write_scan(scan, format_name, arguments)
    except SnapshotError as error:
        raise state.operator.named(error) from None
    return YES
