"""``stateproc ls``: list snapshots below directories, or files that none of them needs."""

from __future__ import annotations

import json
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stateproc.catalog.discovery import discover
from stateproc.catalog.entries import CatalogEntry, JobGroup
from stateproc.catalog.flink_configuration import (
    CHECKPOINT_DIRECTORY,
    SAVEPOINT_DIRECTORY,
    FlinkConfiguration,
    flink_configuration,
)
from stateproc.catalog.listing import SnapshotCatalog, catalog_of
from stateproc.catalog.orphans import DEFAULT_MIN_AGE, OrphanReport, UnneededFile, orphans_of, parse_age
from stateproc.cli.arguments import option_values
from stateproc.cli.exit_status import NO, UNREADABLE, YES
from stateproc.cli.progress import counting, progress
from stateproc.cli.terminal import printable, show
from stateproc.errors import InvalidOption, MissingFile, Where
from stateproc.html.units import counted, human_bytes
from stateproc.options import BY_NAME
from stateproc.storage.store import StorePath
from stateproc.storage.uris import is_within, join, parent


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
            orphans = orphans_of(catalog, min_age=min_age, listed=advance)
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
    missing = [path for path in configuration.directories if not StorePath.of(path, options).exists()]
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
        return catalog_of(discovery, read)


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
    if configuration is not None:
        show(configuration_view(configuration, missing))
    show(catalog_view(catalog) if orphans is None else orphans_view(catalog, orphans))


# Show what ``ls`` finds: a table of snapshots per job, or of unneeded files per directory.

_MOST_FILES = 10
"""Files that are shown of each directory."""
_KINDS = {"checkpoint": "cyan", "native savepoint": "magenta", "canonical savepoint": "green", "savepoint": "green"}
_NEWEST = "▸"
_BOX = box.Box("    \n    \n ── \n    \n    \n    \n    \n    \n")
_STATUS = {"incomplete": "yellow", "unreadable": "red"}


def catalog_view(catalog: SnapshotCatalog) -> Group:
    """Return the snapshots as something that rich can print."""
    roots = catalog.discovery.roots
    parts: list[RenderableType] = [_head(catalog), Text()]
    for group in catalog.groups:
        names = _names(group, roots)
        parts += [_group_line(group, roots), Padding(_snapshots(group, names), (0, 0, 0, 1))]
        parts += [*_remarks(group, names), Text()]
    return Group(*parts)


def _remarks(group: JobGroup, names: Mapping[str, str]) -> Iterator[Text]:
    """Yield why snapshots are unreadable or incomplete, and notes."""
    for entry in group.entries:
        name = names[entry.path]
        if entry.problem:
            yield Text.assemble(("  ✗ ", "red"), (name, "red"), ": ", printable(entry.problem))
        elif entry.status == "incomplete":
            written = "" if entry.last_write is None else f", last written to {_minutes(entry.last_write)}"
            yield Text.assemble(("  … ", "yellow"), (name, "yellow"), f": no _metadata{written}")
    for note in group.notes:
        yield Text.assemble(("  ! ", "yellow"), printable(note))


def _head(catalog: SnapshotCatalog) -> Text:
    entries = catalog.entries
    text = Text()
    for root in catalog.discovery.roots:
        text.append(printable(root) + "\n", "bold")
    if not entries:
        return text.append("no savepoint and no checkpoint", "dim")
    jobs = len({group.job for group in catalog.groups if group.job})
    facts = [counted(jobs, "job")] if jobs else []
    facts.append(counted(sum(entry.status == "complete" for entry in entries), "complete snapshot"))
    for status in ("incomplete", "unreadable"):
        number = sum(entry.status == status for entry in entries)
        facts += [f"{number} {status}"] if number else []
    facts += [f"{_NEWEST} newest"] if any(entry.newest for entry in entries) else []
    return text.append(" · ".join(facts), "dim")


def _group_line(group: JobGroup, roots: Sequence[str]) -> Text:
    """Return the job's id and the directories of its snapshots other than the root and the root's one of the job."""
    job = group.job
    if job is None:
        return Text("job unknown", "bold")
    other = _other_directories(group)
    places = [group.directory, *other] if len(other) == 1 else [group.directory]
    names = [printable(_relative(place, "", roots)) for place in places if [place] != list(roots)]
    shown = ", ".join(name for name in names if name != job)
    return Text.assemble((f"job {job}" if len(job) == 32 else f"job {job}…", "bold"), (f"  {shown}", "dim"))


def _other_directories(group: JobGroup) -> list[str]:
    return sorted({parent(entry.path) for entry in group.entries} - {group.directory})


def _names(group: JobGroup, roots: Sequence[str]) -> dict[str, str]:
    """Return how each snapshot is named, by path: by its last component where the line above says the directory."""
    short = group.job is not None and len(_other_directories(group)) < 2
    return {
        entry.path: printable(entry.name if short else _relative(entry.path, group.directory, roots))
        for entry in group.entries
    }


def _snapshots(group: JobGroup, names: Mapping[str, str]) -> Table:
    table = Table(
        box=_BOX, show_edge=False, pad_edge=False, header_style="dim", border_style="dim", padding=(0, 1, 0, 0)
    )
    table.add_column("", width=1)
    table.add_column("snapshot", overflow="fold")
    table.add_column("id", justify="right", no_wrap=True)
    table.add_column("kind", min_width=len("checkpoint"))
    table.add_column("completed (UTC)", no_wrap=True)
    table.add_column("own", justify="right", no_wrap=True)
    table.add_column("shared", justify="right", no_wrap=True)
    for entry in group.entries:
        table.add_row(*_cells(entry, names[entry.path]))
    return table


def _cells(entry: CatalogEntry, name: str) -> list[Text]:
    style = "bold green" if entry.newest else _STATUS.get(entry.status, "")
    time = _minutes(entry.completed_at) if entry.status == "complete" else entry.status
    return [
        Text(_NEWEST if entry.newest else "", style),
        Text(name, style),
        Text("–" if entry.checkpoint_id is None else str(entry.checkpoint_id)),
        Text(entry.kind or "–", _KINDS.get(entry.kind or "", "dim")),
        Text(time, style),
        Text(human_bytes(entry.own_bytes)),
        Text(human_bytes(entry.shared_bytes), "" if entry.shared_bytes else "dim"),
    ]


def _relative(path: str, directory: str, roots: Iterable[str]) -> str:
    """Return a path within its group or a root in short."""
    for above in (directory, *roots):
        if above and path != above and is_within(path, above):
            return path[len(above.rstrip("/")) + 1 :]
    return path


def _minutes(time: datetime | None) -> str:
    return "–" if time is None else time.strftime("%Y-%m-%d %H:%M")


def orphans_view(catalog: SnapshotCatalog, report: OrphanReport) -> Group:
    """Return the unneeded files as something that rich can print; what makes the answer unsafe comes last."""
    roots = catalog.discovery.roots
    found = f"{counted(len(report.orphans), 'file')}, {human_bytes(report.orphan_bytes)},"
    needed = Text.assemble((found, "bold"), " that no complete snapshot needs")
    parts: list[RenderableType] = [Text(printable(root), "bold") for root in roots]
    parts.append(needed if report.orphans else Text("no file that no complete snapshot needs"))
    parts += _files(report.orphans, roots)
    if report.in_progress:
        younger = f"{counted(len(report.in_progress), 'file')}, {human_bytes(report.in_progress_bytes)}"
        age = _duration(report.min_age)
        parts += [
            Text(),
            Text.assemble(
                (f"not among them: {younger}", "yellow"),
                f" younger than {age}, which a checkpoint in progress may need",
            ),
            *_files(report.in_progress, roots),
        ]
    parts.append(Text())
    if report.unsafe:
        parts.append(Text("NOT SAFE to delete any of these, because not everything could be read:", "bold red"))
        parts += [Text.assemble(("  ✗ ", "red"), printable(reason)) for reason in report.unsafe]
    else:
        parts.append(Text("Snapshots outside of this directory may need these files, too. Nothing was deleted.", "dim"))
    return Group(*parts)


def _files(files: Sequence[UnneededFile], roots: Sequence[str]) -> list[RenderableType]:
    by_directory: dict[str, list[UnneededFile]] = defaultdict(list)
    for file in files:
        by_directory[parent(file.path)].append(file)
    parts: list[RenderableType] = []
    for directory, members in by_directory.items():
        size = human_bytes(sum(file.bytes for file in members))
        name = printable(_relative(directory, "", roots))
        title = Text.assemble((name, "bold"), (f"  {counted(len(members), 'file')}, {size}", "dim"))
        parts += [Text(), title, Padding(_table(members), (0, 0, 0, 2))]
        if len(members) > _MOST_FILES:
            parts.append(Text(f"    … and {len(members) - _MOST_FILES:,} more: --json lists all", "dim"))
    return parts


def _table(files: Sequence[UnneededFile]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for file in sorted(files, key=lambda file: -file.bytes)[:_MOST_FILES]:
        name = file.path[len(join(parent(file.path), "")) :]
        table.add_row(Text(human_bytes(file.bytes)), Text(_minutes(file.modified), "dim"), Text(printable(name)))
    return table


def _duration(age: timedelta) -> str:
    for unit, seconds in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        number, rest = divmod(int(age.total_seconds()), seconds)
        if number and not rest:
            return counted(number, unit)
    return counted(int(age.total_seconds()), "second")


def configuration_view(configuration: FlinkConfiguration, missing: Sequence[str]) -> Group:
    """Return what a Flink configuration says about snapshots, under today's keys."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", overflow="fold")
    table.add_column(overflow="fold")
    for item in configuration.settings:
        value = Text(printable(item.value))
        if item.written_as != item.key:
            value.append(f"  written as {printable(item.written_as)}", "dim italic")
        table.add_row(printable(item.key), value)
    parts: list[RenderableType] = [Text.assemble(("Flink configuration  ", "bold"), printable(configuration.path))]
    if configuration.settings:
        parts.append(Padding(table, (0, 0, 0, 2)))
    else:
        parts.append(Text("  nothing about checkpoints, savepoints or state backends", "dim"))
    parts += [Text.assemble(("  ! ", "yellow"), f"{printable(path)} does not exist") for path in missing]
    return Group(*parts, Text())
