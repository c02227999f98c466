"""Find files of a native savepoint that a job claimed, which its checkpoints name as if they were their own.

A job that restores a native savepoint with CLAIM uses its files on in incremental checkpoints. Their handles are those
of the savepoint, relative to its directory, so that in the checkpoint they point beside its own ``_metadata``, where
these files are not (FLINK-39964): Flink cannot restore such a checkpoint. Nothing in it names the savepoint. Flink
gives each file of a native savepoint a random UUID as its name, so that one of the same name and size is the one meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from stateproc.errors import MisplacedFile, MissingFile, SnapshotError, Where
from stateproc.storage.checkpoint_roots import CheckpointRoots
from stateproc.storage.layout import CHECKPOINT_NAME, JOB_DIRECTORIES
from stateproc.storage.store import StorePath
from stateproc.storage.uris import basename, join, parent

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LEVELS = 2
"""``savepoints/savepoint-1f2e3d`` below a root, and ``<job>/chk-N``."""
_MOST_DIRECTORIES = 500
_MOST_NAMES = 1 << 20
_SHOWN = 3


@dataclass
class ClaimedFiles:
    """Where files of claimed savepoints may be; directories are listed at the first file that is missing.

    Attributes:
        roots: The directories below which files of the snapshot are read.
    """

    roots: CheckpointRoots
    _names: dict[bool, dict[str, list[str]]] = field(default_factory=dict, init=False, repr=False)

    def __reduce__(self) -> tuple[type[ClaimedFiles], tuple[CheckpointRoots]]:
        return ClaimedFiles, (self.roots,)

    def find(self, path: StorePath, size: int) -> str | None:
        """Return where a missing file is, below the roots; None if it is not there.

        Raises:
            MissingFile: Several directories have a file of this name and size.
        """
        uri = path.uri
        found = self._places(path, size, outside=False)
        if len(found) > 1:
            raise MissingFile(
                f"a file of the snapshot is missing; {len(found)} directories have one of this name and size: "
                f"{', '.join(map(parent, found[:_SHOWN]))}",
                where=Where(file=uri),
                advice=f"say which is meant: --path-mapping {parent(uri)}={parent(found[0])} on the command line, "
                f"path_mapping={{'{parent(uri)}': '{parent(found[0])}'}} in Python",
            )
        return found[0] if found else None

    def missing(self, path: StorePath, size: int, tried: str) -> MissingFile:
        """Return the error for a file that is not below the roots; it says if it is in a directory near them."""
        uri = path.uri
        found = self._places(path, size, outside=True)
        if not found:
            advice = (
                "copy the file there, or, if the files were moved, specify the new prefix with "
                "path_mapping={'old prefix': 'new prefix'}"
            )
            if CHECKPOINT_NAME.fullmatch(basename(self.roots.directory)):
                advice += (
                    "; or, if the job had claimed a native savepoint, allow the directory of that savepoint, in which "
                    "its files are: --allow-root DIRECTORY (FLINK-39964)"
                )
            return MissingFile(f"a file of the snapshot is missing{tried}", where=Where(file=uri), advice=advice)
        directories = list(dict.fromkeys(map(parent, found)))
        one = directories[0]
        others = f" (or {', '.join(directories[1:_SHOWN])})" if len(directories) > 1 else ""
        return MisplacedFile(
            f"a file of the snapshot is not beside its _metadata, but in {one}{others}: the job had claimed that "
            "native savepoint, whose files its checkpoints name as their own, so that Flink cannot restore them "
            "(FLINK-39964)",
            where=Where(file=uri),
            advice=f"allow that directory: allowed_roots=['{one}'] in Python, allowedRoots in Spark, --allow-root "
            f"{one} on the command line; stateproc copy with it writes a snapshot that Flink restores",
        )

    def _places(self, path: StorePath, size: int, *, outside: bool) -> list[str]:
        """Return the files of this name and size, in this order of directories."""
        name = path.name
        if not _UUID.fullmatch(name):
            return []
        if outside not in self._names:
            self._names[outside] = self._listed(map(path.at, self._outside() if outside else self._inside()))
        places = [join(directory, name) for directory in self._names[outside].get(name, [])]
        return [
            place
            for place in places
            if place != path.uri
            and (outside or self.roots.holds(place))
            and (status := path.at(place).file_status()) is not None
            and status.size == size
        ]

    def _inside(self) -> Iterator[str]:
        yield from dict.fromkeys([*reversed(self.roots.own), *self.roots.allowed])

    def _outside(self) -> Iterator[str]:
        """Yield the directory in which that of the checkpoints is, unless it is the root of a file system."""
        above = parent(self.roots.outermost)
        if above != self.roots.outermost and self.roots.may_be_searched(above):
            yield above

    def _listed(self, roots: Iterable[StorePath]) -> dict[str, list[str]]:
        """Return the directories, by the names of files in them."""
        found: dict[str, list[str]] = {}
        waiting = [(root, 0) for root in roots]
        seen: set[StorePath] = set()
        names = 0
        while waiting and len(seen) < _MOST_DIRECTORIES and names < _MOST_NAMES:
            directory, level = waiting.pop(0)
            if directory in seen:
                continue
            seen.add(directory)
            try:
                entries = directory.entries()
            except SnapshotError:
                continue  # what may not be listed is not searched
            for entry in entries:
                if not entry.is_directory:
                    if _UUID.fullmatch(entry.name):
                        found.setdefault(entry.name, []).append(directory.uri)
                        names += 1
                elif level < _LEVELS and entry.name not in JOB_DIRECTORIES and not entry.name.startswith("."):
                    waiting.append((entry.path, level + 1))
        return found
