"""The arguments of the verbs that write a changed copy of a snapshot, built from the table of changes."""

from __future__ import annotations

from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Callable, Iterable
from typing import Any

from stateproc.cli.arguments import add_open_options
from stateproc.cli.command_definition import CommandDefinition
from stateproc.writers.changes import CHANGES, ChangeDefinition, ChangeField

ENGINES = ("local", "spark")
MODULE = "verb"
"""The module of `stateproc.cli` that runs all verbs: ``verb_command.py``."""
_TTL_SUMMARY = "enable or disable the time to live of states, or purge expired entries"


def add_write_arguments(parser: ArgumentParser, *, source_help: str = "the snapshot to copy and change") -> None:
    """Add source and target, and the options that all verbs share."""
    add_open_options(parser, source_help, metavar="SOURCE", omitted=frozenset({"plan"}))
    parser.add_argument("target", metavar="TARGET", help="the directory of the new savepoint, local or any fsspec URI")
    group = add_writing_options(parser)
    group.add_argument(
        "--drop-in-flight-data",
        action="store_true",
        help="drop the records in flight of an unaligned checkpoint, which are lost then",
    )


def add_writing_options(parser: ArgumentParser) -> Any:
    """Add the options of all commands that write a savepoint; return their group."""
    group = parser.add_argument_group("writing")
    group.add_argument("--plan", dest="only_plan", action="store_true", help="say what would happen, and write nothing")
    group.add_argument("--json", action="store_true", help="print the plan or the report as JSON")
    group.add_argument("--overwrite", action="store_true", help="replace a snapshot that is in TARGET already")
    group.add_argument(
        "--target-storage-options",
        action="append",
        metavar="NAME=VALUE",
        help="settings of the file system of TARGET; default those of SOURCE; repeatable",
    )
    group.add_argument(
        "--engine", choices=ENGINES, default="local", help="write in this process (local, the default) or in Spark"
    )
    group.add_argument(
        "--master",
        metavar="URL",
        help="Spark master URL, for --engine spark (default: spark.master of the Spark configuration)",
    )
    return group


def _add_field(group: Any, field: ChangeField) -> None:
    shape = field.type.shape
    options: dict[str, Any] = {"dest": field.name, "default": None, "help": field.help}
    if shape == "flag":
        options["action"] = BooleanOptionalAction
    elif shape in ("many", "pairs"):
        options |= {"action": "append", "metavar": field.type.metavar, "help": f"{field.help}; repeatable"}
    elif field.type.choices:
        options["choices"] = field.type.choices
    else:
        options["metavar"] = field.type.metavar
    group.add_argument(field.flag, **options)


def _adding(definitions: Iterable[ChangeDefinition]) -> Callable[[ArgumentParser], None]:
    """Return what adds the arguments of a verb; one of several words has its second as an argument."""
    changes = tuple(definitions)

    def add_arguments(parser: ArgumentParser) -> None:
        if len(changes) > 1:
            actions = [definition.words[1] for definition in changes]
            parser.add_argument("action", choices=actions, help="what to do")
        add_write_arguments(parser)
        group = parser.add_argument_group("the change")
        fields = {field.name: field for definition in changes for field in definition.fields}
        for field in fields.values():
            _add_field(group, field)
        parser.set_defaults(verb=changes[0].words[0])

    return add_arguments


def _verb(changes: tuple[ChangeDefinition, ...]) -> CommandDefinition:
    name = changes[0].words[0]
    examples = tuple(
        f"stateproc {' '.join(definition.words)} /savepoints/savepoint-4f1b /savepoints/changed {example}"
        for definition in changes
        for example in definition.examples
    )
    summary = changes[0].summary if len(changes) == 1 else _TTL_SUMMARY
    return CommandDefinition(name, summary, _adding(changes), examples, module=MODULE)


def _copy_arguments(parser: ArgumentParser) -> None:
    add_write_arguments(parser, source_help="the snapshot to copy")
    parser.set_defaults(verb="copy")


COPY = CommandDefinition(
    "copy",
    "copy a snapshot into one directory that needs no other file",
    _copy_arguments,
    (
        "stateproc copy /checkpoints/8a1e7c /savepoints/kept",
        "stateproc copy s3://bucket/checkpoints/8a1e7c/chk-812 /savepoints/kept --plan",
    ),
    module=MODULE,
)
_FIRST_WORDS = tuple(dict.fromkeys(definition.words[0] for definition in CHANGES if definition.words))
VERBS: tuple[CommandDefinition, ...] = (
    COPY,
    *(_verb(tuple(definition for definition in CHANGES if definition.words[:1] == (word,))) for word in _FIRST_WORDS),
)
"""A command per first word of the changes, and ``copy``, which changes nothing."""
