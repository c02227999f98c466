"""The verbs that write a changed copy of a snapshot: arguments → changes → writer → plan or report."""

from __future__ import annotations

from argparse import Namespace

from stateproc.cli.arguments import open_snapshot
from stateproc.cli.exit_status import YES
from stateproc.cli.write_output import chosen_engine, print_plan_or_report, storage_settings
from stateproc.writers.changes import CHANGES, ChangeDefinition, DropInFlightData, SnapshotChange
from stateproc.writers.savepoint_writer import SavepointWriter


def verb_command(arguments: Namespace) -> int:
    """Write the target with the change that the arguments describe, or print its plan; return the exit status."""
    changes = _changes(arguments)
    snapshot = open_snapshot(arguments)
    with chosen_engine(arguments, f"stateproc {arguments.verb}") as spark:
        writer = SavepointWriter.from_snapshot(spark, snapshot)
        if arguments.target_storage_options is not None:
            writer.with_storage_options(storage_settings(arguments.target_storage_options))
        for change in changes:
            change.apply(writer)
        print_plan_or_report(writer, arguments)
    return YES


def _changes(arguments: Namespace) -> list[SnapshotChange]:
    """The changes that the arguments describe. Raises InvalidOption."""
    found: list[SnapshotChange] = []
    definition = _definition(arguments)
    if definition is not None:
        fields = {field.name for item in _of_verb(arguments.verb) for field in item.fields}
        values = {name: getattr(arguments, name) for name in fields}
        found.append(definition.make(values, flags=True))
    if arguments.drop_in_flight_data:
        found.append(DropInFlightData())
    return found


def _of_verb(verb: str) -> list[ChangeDefinition]:
    return [definition for definition in CHANGES if definition.words[:1] == (verb,)]


def _definition(arguments: Namespace) -> ChangeDefinition | None:
    """The change of the verb; None for a copy."""
    named = _of_verb(arguments.verb)
    if len(named) < 2:
        return named[0] if named else None
    return next(definition for definition in named if definition.words[1] == arguments.action)
