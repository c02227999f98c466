"""The table of commands, in the order of ``stateproc --help``: one row and one module with its arguments each."""

from stateproc.cli.arguments import CommandDefinition
from stateproc.cli.definitions.rows import CHANGES, EXPORT, OFFSETS, PENDING, READ, SQL
from stateproc.cli.definitions.snapshots import (
    CHECK,
    CLASSES,
    COMPLETION,
    DEMO,
    DESCRIBE,
    DIFF,
    INSPECT,
    LS,
    NOTEBOOK,
    VERIFY,
    WARMUP,
)
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
    CHECK,
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
