"""The table of commands, in the order of ``stateproc --help``: one row and one module with its arguments each."""

from stateproc.cli.command_definition import CommandDefinition
from stateproc.cli.definitions.installation import COMPLETION, DEMO, NOTEBOOK, WARMUP
from stateproc.cli.definitions.rows import CHANGES, EXPORT, OFFSETS, PENDING, READ, SQL
from stateproc.cli.definitions.snapshots import CLASSES, DESCRIBE, DIFF, INSPECT, LS, VERIFY
from stateproc.cli.definitions.writing import BOOTSTRAP, RUN, VERBS

COMMANDS: tuple[CommandDefinition, ...] = (
    LS,
    INSPECT,
    DESCRIBE,
    READ,
    SQL,
    EXPORT,
    DIFF,
    CHANGES,
    VERIFY,
    CLASSES,
    OFFSETS,
    PENDING,
    *VERBS,
    BOOTSTRAP,
    RUN,
    DEMO,
    NOTEBOOK,
    COMPLETION,
    WARMUP,
)
