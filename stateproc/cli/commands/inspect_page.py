"""``stateproc inspect --html``: write the page."""

from __future__ import annotations

import sys
from datetime import datetime, timezone

import stateproc
from stateproc.cli.progress import progress
from stateproc.cli.row_output import output_stream
from stateproc.errors import SnapshotError
from stateproc.html.units import human_bytes
from stateproc.model.operator import Operator
from stateproc.reports.inspect_report import Report
from stateproc.reports.page.page_report import page_report
from stateproc.reports.page.render_page import render_page
from stateproc.reports.state_times import state_times, states_with_times
from stateproc.snapshot.snapshot import Snapshot


def write_page(
    path: str, snapshot: Snapshot, operators: list[Operator], report: Report, *, scan: bool, threads: int | None
) -> None:
    """Write the page, and its path to stderr; ``-`` writes to stdout. Raises SnapshotError."""
    with progress("counting timers and last accesses", _bytes_of_times(operators)) as advance:
        times = list(state_times(operators, scan=scan, threads=threads, advance=advance))
    facts = page_report(snapshot, operators, report, times, scan=scan)
    page = render_page(facts, version=stateproc.__version__, made=datetime.now(timezone.utc)).encode()
    if path == "-":
        sys.stdout.buffer.write(page)
        return
    with output_stream(path) as stream:
        stream.write(page)
    print(f"{path}: {human_bytes(len(page))}", file=sys.stderr)


def _bytes_of_times(operators: list[Operator]) -> int:
    total = 0
    for operator in operators:
        try:
            total += sum(file.data_bytes for file in operator.keyed_files) * len(states_with_times(operator))
        except SnapshotError:
            continue  # the report lists it as a problem
    return total
