"""The table of commands, in the order of ``stateproc --help``: one row and one module with its arguments each."""

from stateproc.cli.command_definition import CommandDefinition
from stateproc.cli.definitions.bootstrap import BOOTSTRAP
from stateproc.cli.definitions.changes import CHANGES
from stateproc.cli.definitions.classes import CLASSES
from stateproc.cli.definitions.completion import COMPLETION
from stateproc.cli.definitions.demo import DEMO
from stateproc.cli.definitions.describe import DESCRIBE
from stateproc.cli.definitions.diff import DIFF
from stateproc.cli.definitions.export import EXPORT
from stateproc.cli.definitions.inspect import INSPECT
from stateproc.cli.definitions.ls import LS
from stateproc.cli.definitions.notebook import NOTEBOOK
from stateproc.cli.definitions.offsets import OFFSETS
from stateproc.cli.definitions.read import READ
from stateproc.cli.definitions.run import RUN
from stateproc.cli.definitions.sql import SQL
from stateproc.cli.definitions.verbs import VERBS
from stateproc.cli.definitions.verify import VERIFY
from stateproc.cli.definitions.warmup import WARMUP

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
    *VERBS,
    BOOTSTRAP,
    RUN,
    DEMO,
    NOTEBOOK,
    COMPLETION,
    WARMUP,
)
