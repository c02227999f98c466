"""The arguments of ``stateproc changes``."""

from __future__ import annotations

from argparse import ArgumentParser

from stateproc.cli.arguments import add_open_options, add_options
from stateproc.cli.command_definition import CommandDefinition
from stateproc.cli.definitions.row_arguments import add_row_output, add_state_options
from stateproc.options import BY_NAME, FEED_OPTIONS


def _add_arguments(parser: ArgumentParser) -> None:
    add_open_options(parser, "the earlier snapshot; or a checkpoint root, without NEW")
    parser.add_argument("other", metavar="NEW", nargs="?", help="the later snapshot")
    add_state_options(parser)
    feed = parser.add_argument_group("which changes")
    add_options(feed, FEED_OPTIONS)
    rows = add_row_output(parser)
    add_options(rows, (BY_NAME[name] for name in ("raw", "columns", "threads")))
    rows.add_argument("--summary", action="store_true", help="count the changes of each checkpoint instead")
    rows.add_argument("--json", action="store_true", help="print these counts as JSON")


CHANGES = CommandDefinition(
    "changes",
    "print what changed in a state between two snapshots, or checkpoint after checkpoint",
    _add_arguments,
    (
        "stateproc changes chk-812 chk-813 --uid orders --state totals --where 'key = 42'",
        "stateproc changes s3://bucket/checkpoints/8a1e7c --from 800 --to 813 --uid orders --state totals",
        "stateproc changes /checkpoints/8a1e7c --from 800 --mode net --uid orders --timers event",
        "stateproc changes /checkpoints/8a1e7c --uid orders --state totals --output changes.parquet",
    ),
)
