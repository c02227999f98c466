"""``stateproc ls``: list snapshots below directories, or files that none of them needs."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from stateproc.catalog.discovery import discover
from stateproc.catalog.flink_configuration import (
    CHECKPOINT_DIRECTORY,
    SAVEPOINT_DIRECTORY,
    FlinkConfiguration,
    flink_configuration,
)
from stateproc.catalog.listing import SnapshotCatalog, catalog_of
from stateproc.catalog.orphans import DEFAULT_MIN_AGE, OrphanReport, orphans_of, parse_age
from stateproc.cli.arguments import option_values
from stateproc.cli.exit_status import NO, UNREADABLE, YES
from stateproc.cli.progress import counting, progress
from stateproc.errors import InvalidOption, MissingFile, Where
from stateproc.options import BY_NAME
from stateproc.storage.filesystem import absolute, kind_of


def ls_command(arguments: Namespace) -> int:
    """Print the list, as text or as JSON; return the exit status.

    Returns:
        YES if anything of the kind asked for was found, else NO; UNREADABLE if files may be needed that are listed as
        orphans, because something could not be read.
    """
    options = option_values(arguments, (BY_NAME["storage_options"],))["storage_options"]
    if arguments.min_age is not None and not arguments.orphans:
        raise InvalidOption("--min-age without --orphans", advice="give --orphans, too, to list files nobody needs")
    min_age = DEFAULT_MIN_AGE if arguments.min_age is None else parse_age(arguments.min_age)
    configuration = None if arguments.conf is None else flink_configuration(arguments.conf)
    roots, missing = _roots(arguments.roots, configuration, options)
    catalog = _catalog(roots, options)
    orphans = None
    if arguments.orphans:
        with counting("listing files", "directories") as advance:
            orphans = orphans_of(catalog, options, min_age=min_age, listed=advance)
    if arguments.json:
        text = json.dumps(_report(catalog, configuration, missing, orphans), ensure_ascii=False, indent=2)
        # Names of files that are no UTF-8 contain surrogates, which become escapes of JSON.
        print(text.encode("utf-8", "backslashreplace").decode())
    else:
        _show(catalog, configuration, missing, orphans)
    if orphans is not None and orphans.unsafe:
        return UNREADABLE
    return YES if (catalog.entries if orphans is None else orphans.orphans) else NO


def _roots(
    given: list[str], configuration: FlinkConfiguration | None, options: Mapping[str, Any]
) -> tuple[list[str], list[str]]:
    """Return the directories to list, and those of the configuration that do not exist."""
    if given:
        return given, []
    if configuration is None:
        raise InvalidOption("no directory to list", advice="give a directory, or Flink's configuration with --conf")
    if not configuration.directories:
        raise InvalidOption(
            f"neither {CHECKPOINT_DIRECTORY} nor {SAVEPOINT_DIRECTORY} is set",
            where=Where(file=configuration.path),
            advice="give the directory to list: the jobs may set it themselves",
        )
    missing = [path for path in configuration.directories if kind_of(absolute(path), options) is None]
    roots = [path for path in configuration.directories if path not in missing]
    if not roots:
        raise MissingFile(
            f"nothing there: {' and '.join(missing)}",
            where=Where(file=configuration.path),
            advice="check the directories and the storage options; jobs may set others",
        )
    return roots, missing


def _catalog(roots: list[str], options: Mapping[str, Any]) -> SnapshotCatalog:
    with counting("listing", "directories") as advance:
        discovery = discover(roots, options, advance)
    with progress("reading _metadata", sum(item.metadata_bytes for item in discovery.complete)) as read:
        return catalog_of(discovery, options, read)


def _report(
    catalog: SnapshotCatalog, configuration: FlinkConfiguration | None, missing: list[str], orphans: OrphanReport | None
) -> dict[str, Any]:
    return {
        "roots": list(catalog.discovery.roots),
        "missing_roots": missing,
        "configuration": None if configuration is None else configuration.to_dict(),
        "snapshots": [entry.to_dict() for entry in catalog.entries],
        "notes": [note for group in catalog.groups for note in group.notes],
        "orphans": None if orphans is None else orphans.to_dict(),
    }


def _show(
    catalog: SnapshotCatalog, configuration: FlinkConfiguration | None, missing: list[str], orphans: OrphanReport | None
) -> None:
    from stateproc.cli.render.ls_view import catalog_view, configuration_view, orphans_view
    from stateproc.cli.render.terminal import show

    if configuration is not None:
        show(configuration_view(configuration, missing))
    show(catalog_view(catalog) if orphans is None else orphans_view(catalog, orphans))
