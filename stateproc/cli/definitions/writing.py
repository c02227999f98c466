"""The arguments of commands that write: the verbs, bootstrap, run."""

from __future__ import annotations

from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stateproc.cli.arguments import CommandDefinition, add_open_options
from stateproc.jobs.state_kinds import STATE_KINDS
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


FORMATS = ("parquet", "csv", "json", "arrow", "delta")


def state_arguments() -> Mapping[str, Mapping[str, Any]]:
    """Return the arguments of all kinds of states, each with the JSON Schema of its value."""
    return {name: schema for kind in STATE_KINDS.values() for name, schema in kind.arguments.items()}


def _add_state_argument(group: Any, name: str, schema: Mapping[str, Any]) -> None:
    flag = "--" + name.replace("_", "-")
    kinds = [kind for kind, found in STATE_KINDS.items() if name in found.arguments]
    shown = "all kinds" if len(kinds) > 6 else ", ".join(kinds)
    help_ = schema.get("description", "an option of the state")
    options: dict[str, Any] = {"default": None, "help": f"{help_} ({shown})"}
    if schema.get("type") == "boolean":
        group.add_argument(flag, action="store_true", **options)
    elif "enum" in schema:
        whole = isinstance(schema["enum"][0], int)
        group.add_argument(flag, choices=schema["enum"], type=int if whole else str, **options)
    else:
        is_number = schema.get("type") == "integer"
        metavar = "N" if is_number else ("TYPE" if name.endswith("type") else "COLUMN")
        group.add_argument(flag, metavar=metavar, type=int if is_number else str, **options)


def _bootstrap_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="SOURCE", help="rows: a file, a directory of files, a glob or a Delta table")
    parser.add_argument("target", metavar="TARGET", help="the directory of the savepoint, local or any fsspec URI")
    source = parser.add_argument_group("rows")
    source.add_argument("--format", choices=FORMATS, help="default by the file's suffix; delta for a Delta table")
    source.add_argument("--version", type=int, metavar="N", help="the version of a Delta table; default the newest")
    source.add_argument("--sql", metavar="QUERY", help="a query over the rows, which it calls rows")
    source.add_argument(
        "--storage-options", action="append", metavar="NAME=VALUE", help="settings of SOURCE's file system; repeatable"
    )
    state = parser.add_argument_group("the state")
    state.add_argument("--uid", required=True, metavar="UID", help="the operator's uid, or its uid hash")
    state.add_argument("--kind", required=True, choices=tuple(STATE_KINDS), help="the kind of state")
    state.add_argument("--state", metavar="NAME", help="the name of the state's descriptor; timers have none")
    state.add_argument("--key", metavar="COLUMN", help="the column of keys; default key")
    state.add_argument("--key-type", metavar="TYPE", help="the Flink type of keys; default that of the column")
    state.add_argument("--hash-column", metavar="COLUMN", help="the column of hashCodes of keys of a class of its own")
    for name, schema in state_arguments().items():
        _add_state_argument(state, name, schema)
    savepoint = parser.add_argument_group("the savepoint")
    savepoint.add_argument("--base", metavar="PATH", help="a snapshot to copy and to add the state to")
    savepoint.add_argument(
        "--extend", action="store_true", help="add the state to the base's operator, instead of replacing all its state"
    )
    savepoint.add_argument("--max-parallelism", type=int, metavar="N", help="key groups of all operators; default 128")
    savepoint.add_argument("--parallelism", type=int, metavar="N", help="the operator's number of subtasks")
    savepoint.add_argument("--flink-version", metavar="V", help="the release that restores it; default 1.20")
    savepoint.add_argument("--to", choices=("canonical", "native-hashmap", "native-rocksdb"), help="default canonical")
    add_writing_options(parser)


BOOTSTRAP = CommandDefinition(
    "bootstrap",
    "write a savepoint with one state from Parquet, CSV, JSON, Arrow or Delta",
    _bootstrap_arguments,
    (
        "stateproc bootstrap customers.parquet /savepoints/new --uid customers --kind value --state name --key id",
        "stateproc bootstrap s3://lake/totals /savepoints/new --format delta --uid orders --kind map --state totals "
        "--map-key product --map-value total",
    ),
)


def _run_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", nargs="?", help="the job: a YAML or JSON file, local or any fsspec URI")
    parser.add_argument(
        "--set",
        action="append",
        metavar="NAME=VALUE",
        default=[],
        help="the value of a variable of the job, also of date and run_id; repeatable",
    )
    parser.add_argument(
        "--engine", choices=ENGINES, help="write in this process (local) or in Spark; default as the job names it"
    )
    parser.add_argument(
        "--master",
        metavar="URL",
        help="Spark master URL, for a job that runs on Spark (default: that of the job, else spark.master)",
    )
    parser.add_argument("--plan", action="store_true", help="show what a run would do; write nothing")
    parser.add_argument(
        "--allow-hooks",
        action="store_true",
        help="run the commands, functions and modules that the job names (metrics, plugins)",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of job files")


RUN = CommandDefinition(
    "run",
    "run a declarative job: plan, check, write and report a savepoint",
    _run_arguments,
    (
        "stateproc run nightly.yaml --plan",
        "stateproc run nightly.yaml --set date=2026-01-31 --json",
        "stateproc run nightly.yaml --engine spark --master spark://host:7077",
    ),
)
