"""Note files that Flink does not find: those of a claimed native savepoint; see storage/claimed_files.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from stateproc.errors import SnapshotError
from stateproc.metadata.walk import relative_shared_files
from stateproc.model.operator import Operator
from stateproc.storage.filesystem import parent
from stateproc.storage.sources import FileSource, open_handle
from stateproc.verification.problem import Problem, Severity


def claimed_file_notes(operator: Operator) -> Iterator[Problem]:
    """Yield a note per directory in which files were found that the snapshot names beside its ``_metadata``."""
    own = operator.location.directory_uri
    places: Counter[str] = Counter()
    for handle in dict.fromkeys(relative_shared_files([operator.metadata])):
        source = open_handle(handle, operator.location)
        if not isinstance(source, FileSource):
            continue
        try:
            source.check_exists()
        except SnapshotError:
            continue  # reported where the state is read
        places[parent(source.name)] += 1
    del places[own]
    for place, number in sorted(places.items()):
        files = "1 file is" if number == 1 else f"{number} files are"
        yield Problem(
            Severity.NOTE,
            f"{files} not beside _metadata, but in {place}: the job had claimed that native savepoint. Flink does not "
            "find them there and cannot restore this checkpoint (FLINK-39964)",
            f"stateproc copy {own} TARGET --allow-root {place} writes a snapshot that Flink restores",
            operator.display,
            file=place,
        )
