"""``stateproc inspect``: show operators, states, types and sizes of a snapshot."""

from __future__ import annotations

import json
import sys
from argparse import Namespace

from stateproc.cli.arguments import open_snapshot, option_values
from stateproc.cli.progress import progress
from stateproc.errors import InvalidOption, SnapshotError
from stateproc.model.operator import Operator
from stateproc.options import BY_NAME
from stateproc.options.parsers import byte_size
from stateproc.reports.inspect_report import snapshot_report, without_small
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
    with progress("counting entries", _bytes_to_count(operators, arguments.scan)) as advance:

        def sizes(operator: Operator) -> OperatorSizes:
            return operator_sizes(operator, scan=arguments.scan, advance=advance, threads=threads)

        report = snapshot_report(snapshot, operators, sizes)
    if min_bytes is not None:
        report = without_small(report, min_bytes)
    if arguments.html is not None:
        # Lazy: start-up.
        from stateproc.cli.html_command import write_page

        write_page(arguments.html, snapshot, operators, report, scan=arguments.scan, threads=threads)
        if not arguments.json or arguments.html == "-":
            return 0
    if arguments.json:
        json.dump(report, sys.stdout, ensure_ascii=False, indent=2)
        print()
        return 0
    from stateproc.cli.render.snapshot_view import snapshot_view
    from stateproc.cli.render.terminal import show

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
        json.dump(report, sys.stdout, ensure_ascii=False, indent=2)
        print()
        return 0
    from stateproc.cli.render.rocksdb_view import rocksdb_view
    from stateproc.cli.render.terminal import show

    show(rocksdb_view(report))
    return 0


def _bytes_to_count(operators: list[Operator], scan: bool) -> int:
    total = 0
    for operator in operators:
        for file in operator.keyed_files:
            try:
                # Only files of key groups have ranges. Their layout, which does not matter, would be read from each.
                total += file.data_bytes if file.ranges and is_small_enough(file, scan) else 0
            except SnapshotError:
                continue  # the report lists it as a problem
    return total
