"""Describe a command: its name, its summary and its arguments."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass


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
        return int(getattr(import_module(f"stateproc.cli.commands.{name}"), f"{name}_command")(arguments))
