"""Describe commands, build their arguments from the option table, and open the snapshot that they name."""

from __future__ import annotations

import sys
from argparse import SUPPRESS, ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stateproc.errors import InvalidOption
from stateproc.options import BY_NAME, OPEN_OPTIONS, PATH, Interface, OptionDefinition

if TYPE_CHECKING:
    from argparse import _ActionsContainer

    from stateproc.catalog.flink_configuration import FlinkConfiguration
    from stateproc.snapshot.snapshot import Snapshot

_OF_READ_ONLY = frozenset({"temporal"})
"""Options of ``stateproc.open`` that change nothing but rows."""


def add_open_options(
    parser: ArgumentParser,
    path_help: str = PATH.help,
    *,
    metavar: str | None = PATH.metavar,
    omitted: frozenset[str] = frozenset(),
) -> None:
    """Add the path, and the options with which a snapshot is opened, without those that are ``omitted``."""
    parser.add_argument("path", metavar=metavar, help=path_help)
    group = parser.add_argument_group("opening the snapshot")
    add_options(group, (option for option in OPEN_OPTIONS if option.name not in _OF_READ_ONLY | omitted))
    group.add_argument(
        "--conf",
        metavar="FILE",
        help="Flink's config.yaml or flink-conf.yaml: a path that does not exist is found below its directories, and "
        "files below them and below its directory of changelogs may be read",
    )


def add_options(group: _ActionsContainer, options: Iterable[OptionDefinition]) -> None:
    """Add the options of the table that the command line has, and their earlier names without help."""
    for option in options:
        if Interface.CLI not in option.interfaces:
            continue
        group.add_argument(*option.cli_names, option.flag, dest=option.name, help=option.help, **_action(option))
        if option.cli_aliases:
            group.add_argument(*option.cli_aliases, dest=option.name, help=SUPPRESS, **_action(option))


def _action(option: OptionDefinition) -> dict[str, Any]:
    """Return the keyword arguments of ``add_argument``. The default is None, so that repeated flags can be merged."""
    if option.type is bool:
        return {"action": BooleanOptionalAction} if option.default else {"action": "store_true", "default": None}
    if option.type is dict or option.repeatable:
        return {"action": "append", "metavar": option.metavar}
    return {"choices": option.choices} if option.choices else {"metavar": option.metavar}


def option_values(arguments: Namespace, options: Iterable[OptionDefinition]) -> dict[str, Any]:
    """Parse the given arguments.

    Returns:
        Python spelling → value; the default for options that are not given.

    Raises:
        InvalidOption: A value does not fit.
    """
    values: dict[str, Any] = {}
    for option in options:
        given = getattr(arguments, option.name, None)
        if option.type is dict and given is not None:
            values[option.name] = {
                name: value for text in given for name, value in option.value(text, Interface.CLI).items()
            }
        elif option.repeatable and given is not None:
            values[option.name] = tuple(item for text in given for item in option.value(text, Interface.CLI))
        else:
            values[option.name] = option.value(given, Interface.CLI)
    return values


def opening_values(arguments: Namespace, temporal: str = "micros") -> dict[str, Any]:
    """Return the options of ``stateproc.open`` that the arguments give; ``temporal`` is micros or exact.

    Files are read below the directories that the configuration of ``--conf`` names, too.
    """
    values = {**option_values(arguments, OPEN_OPTIONS), "temporal": BY_NAME["temporal"].value(temporal)}
    configuration = given_configuration(arguments)
    if configuration is not None:
        values["allowed_roots"] = (*(values.get("allowed_roots") or ()), *configuration.state_roots)
    return values


def given_configuration(arguments: Namespace) -> FlinkConfiguration | None:
    """Return the configuration that ``--conf`` names. Raises MissingFile, InvalidOption."""
    if getattr(arguments, "conf", None) is None:
        return None
    # Lazy: start-up.
    import stateproc

    return stateproc.flink_configuration(arguments.conf)


def configured_path(arguments: Namespace, path: str) -> str:
    """Return the path, or where it is below the directories of the configuration that ``--conf`` names."""
    configuration = given_configuration(arguments)
    if configuration is None:
        return path
    options = option_values(arguments, (BY_NAME["storage_options"],))["storage_options"]
    return configuration.find(path, options)


def open_snapshot(
    arguments: Namespace, temporal: str = "micros", *, path: str | None = None, show_note: bool = True
) -> Snapshot:
    """Open the snapshot that the arguments name.

    Args:
        arguments: Parsed by a parser with ``add_open_options``.
        temporal: ``micros`` or ``exact``.
        path: A snapshot other than that of the arguments.
        show_note: Print to stderr which checkpoint was chosen, if the path is a checkpoint root.

    Raises:
        SnapshotError: The snapshot cannot be opened.
    """
    # Lazy: start-up. --help needs no pyarrow.
    import stateproc

    values = opening_values(arguments, temporal)
    snapshot = stateproc.open(configured_path(arguments, path or arguments.path), **values)
    if snapshot.note and show_note:
        print(snapshot.note, file=sys.stderr)
    return snapshot


# Choose the format in which rows are written.

FORMATS = ("table", "jsonl", "csv", "parquet", "arrow")
_BY_SUFFIX = {".jsonl": "jsonl", ".json": "jsonl", ".csv": "csv", ".parquet": "parquet", ".arrow": "arrow"}


def choose_format(name: str | None, output: str | None, *, terminal: bool) -> str:
    """Choose the format.

    Args:
        name: The value of ``--format``.
        output: The value of ``--output``, whose suffix names a format.
        terminal: Whether stdout is a terminal.

    Returns:
        One of ``FORMATS``: without name and output ``table`` for a terminal, ``jsonl`` for a pipe.

    Raises:
        InvalidOption: The suffix of ``output`` is unknown.
    """
    if name is not None:
        return name
    if output is not None:
        by_suffix = _BY_SUFFIX.get(Path(output).suffix)
        if by_suffix is None:
            raise InvalidOption(
                f"--output {output}: no format has this suffix",
                advice=f"give --format {', '.join(FORMATS)}, or a name that ends in {', '.join(_BY_SUFFIX)}",
            )
        return by_suffix
    return "table" if terminal else "jsonl"


@dataclass(frozen=True)
class CommandDefinition:
    """A command, as ``--help`` shows it.

    The function that runs it is ``<module>_command`` in ``stateproc/cli/commands/<module>.py``: from parsed arguments
    to a status of ``stateproc.cli.exit_status``.

    Attributes:
        name: What is typed after ``stateproc``.
        summary: What the command does, in one phrase.
        add_arguments: Adds its arguments to a parser; it imports nothing that ``--help`` would wait for.
        examples: Command lines for the end of its ``--help``.
        module: What runs it; default its name.
    """

    name: str
    summary: str
    add_arguments: Callable[[ArgumentParser], None]
    examples: tuple[str, ...] = ()
    module: str | None = None

    def run(self, arguments: Namespace) -> int:
        """Run the command; return its exit status."""
        # Lazy: start-up. --help and --version do not load Arrow.
        from importlib import import_module

        name = self.module or self.name
        module = import_module(f"stateproc.cli.commands.{name}")
        return int(getattr(module, f"{name}_command")(arguments))
