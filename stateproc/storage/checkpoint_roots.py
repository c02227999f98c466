"""Decide which files a snapshot may name: those below its checkpoint root, and those below allowed directories.

``_metadata`` names files by absolute paths. Whoever can write a ``_metadata`` could make its reader read, or copy
into a new savepoint, any file that the reader may read. So a path is followed only below directories that Flink's
layout gives to the snapshot, or that the user names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from stateproc.storage.layout import CHECKPOINT_NAME, JOB_NAME, is_flink_directory
from stateproc.storage.uris import (
    absolute,
    basename,
    is_absolute,
    is_within,
    join,
    normalize,
    parent,
    real_path,
    scheme_of,
    store_kind,
)

_LEVELS = 3
"""A moved snapshot's files are looked for in its directory and in the two above it: ``<root>/<job>/chk-N``."""
_MOST_DECODINGS = 4
_ON_HOSTS = frozenset({"hdfs", "viewfs", "webhdfs"})
"""Stores whose authority is a host, in any case, with a tree of directories."""
_UNUSUAL_NAME = re.compile(r"^\.|%|::|[\x00-\x1f\x7f]|^$")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_Place = tuple[str, str, tuple[str, ...]]
"""Kind of store, authority (bucket, host) and path components of a URI."""


@dataclass(frozen=True)
class CheckpointRoots:
    """The directories below which files of a snapshot are read.

    Attributes:
        directory: The snapshot's own directory.
        allowed: Directories and files that the user allows.
        targets: Where the user says that files were moved; only files that are mapped there are read there.
    """

    directory: str
    allowed: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    own: tuple[str, ...] = field(init=False)
    """The directory of the snapshot, of its job and of the job's checkpoints, as far as Flink's layout shows them."""
    _bases: tuple[str, ...] = field(init=False, repr=False)
    _by_directory: dict[str, bool] = field(default_factory=dict, init=False, repr=False, compare=False)
    _linked: dict[str, bool] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, directory: str, allowed: Iterable[str], path_mapping: Mapping[str, str]) -> CheckpointRoots:
        """Return the roots of a snapshot; ``allowed`` and the mapping as the user gives them."""
        return cls(normalize(directory), tuple(map(absolute, allowed)), tuple(map(normalize, path_mapping.values())))

    def __post_init__(self) -> None:
        directories = [self.directory]
        if scheme_of(self.directory) == "file":
            directories.append(real_path(self.directory))
        object.__setattr__(self, "own", tuple(dict.fromkeys(root for one in directories for root in _layout(one))))
        object.__setattr__(self, "_bases", tuple(_above(self.directory)))

    def __reduce__(self) -> tuple[Any, ...]:
        return CheckpointRoots, (self.directory, self.allowed, self.targets)

    @property
    def outermost(self) -> str:
        """The directory of checkpoints, or the outermost one that the snapshot's layout shows."""
        return (_layout(self.directory) or [self.directory])[-1]

    def may_be_searched(self, directory: str) -> bool:
        """Return whether a directory is not the root of a file system."""
        return not _is_root(directory)

    def contains(self, uri: str) -> bool:
        """Return whether a file may be read by its path, in any spelling. Touches no file."""
        head, _, name = uri.rpartition("/")
        if _UNUSUAL_NAME.search(name):
            return self._contains(uri)
        known = self._by_directory.get(head)
        if known is None:
            known = self._by_directory[head] = self._contains(f"{head}/file")
        return known or (bool(self.allowed) and _is_below(uri, self.allowed))

    def _contains(self, uri: str) -> bool:
        return _is_below(uri, self.allowed) or _is_below(uri, self.own, hidden=False)

    def nearby(self, written: str, longest: int) -> list[str]:
        """Return where a file of a moved snapshot may be: the same tail below the snapshot's directory or above.

        Flink names these files by random UUIDs, so one found elsewhere is the one meant; its length is checked. Above
        the directories that belong to the snapshot, only tails that begin with a directory of that layout count.
        """
        parts = [part for part in written.split("/") if part not in ("", ".", "..")]
        tails = [parts[-count:] for count in range(1, min(longest, len(parts) - 1) + 1)]
        found = []
        for base in self._bases:
            whole = base in self.own
            found += [join(base, *tail) for tail in tails if whole or is_flink_directory(tail[0])]
        if _is_unusual(written):
            return [place for place in found if self._contains(place)]
        return found

    def holds(self, uri: str) -> bool:
        """Return whether a file is below these directories once symbolic links are followed.

        Only local disks have links. The file itself may be missing.
        """
        if scheme_of(uri) != "file":
            return True
        path = normalize(uri)
        if os.path.islink(path):
            return self._holds(real_path(path), path)
        head, _, name = path.rpartition("/")
        if name in ("", ".", ".."):
            return self._holds(real_path(path), path)
        known = self._linked.get(head)
        if known is None:
            known = self._linked[head] = self._holds(join(real_path(head or "/"), name), path)
        return known or path in self.allowed or path in self.targets

    def _holds(self, real: str, path: str) -> bool:
        roots = (*self.own, *self.allowed, *self.targets)
        if any(is_within(real, real_path(root)) for root in roots if scheme_of(root) == "file"):
            return True
        for base in self._bases:
            name = path[len(base) + 1 :].partition("/")[0]
            if is_within(path, base) and is_flink_directory(name):
                return is_within(real, join(real_path(base), name))
        return False


def is_below(uri: str, directory: str) -> bool:
    """Return whether a URI is a directory or below it, in any spelling: ``..``, escapes, schemes."""
    return _is_below(uri, (directory,))


def _is_below(uri: str, directories: Iterable[str], *, hidden: bool = True) -> bool:
    """Return whether a URI is below one of some directories, however often it is decoded.

    hidden: whether names that begin with a dot count.
    """
    spelled = _spellings(uri)
    places = [_place(spelling) for spelling in spelled]
    if not spelled or any(place is None for place in places):
        return False
    for directory in directories:
        roots = {place for spelling in _spellings(directory) if (place := _place(spelling)) is not None}
        if all(any(_is_inside(place, root, hidden) for root in roots) for place in places if place is not None):
            return True
    return False


def _is_inside(place: _Place, root: _Place, hidden: bool) -> bool:
    store, authority, parts = root
    if place[:2] != (store, authority) or place[2][: len(parts)] != parts:
        return False
    return hidden or not any(name.startswith(".") for name in place[2][len(parts) :])


def _spellings(uri: str) -> list[str]:
    """Return a URI as it is and with its percent escapes decoded; nothing if that does not end."""
    found = [uri]
    while "%" in found[-1] and (decoded := unquote(found[-1])) != found[-1]:
        found.append(decoded)
        if len(found) > _MOST_DECODINGS:
            return []
    return found


def _place(uri: str) -> _Place | None:
    """Parse a URI; None for one that Flink does not write: chained, with control characters, ``..`` in a store."""
    uri = normalize(uri)
    if "::" in uri or _CONTROL.search(uri):
        return None
    store = store_kind(uri)
    if store == "file":
        return (store, "", _resolved(uri.split("/"))) if is_absolute(uri) else None
    rest = uri.partition(":")[2]
    authority, _, path = rest[2:].partition("/") if rest.startswith("//") else ("", "", rest.lstrip("/"))
    parts = path.split("/") if path else []
    if store in _ON_HOSTS:
        authority, parts = authority.lower(), [part for part in parts if part]
    # Clients of stores may or may not resolve these, and an object's key may contain them.
    return None if any(part in ("", ".", "..") for part in parts) else (store, authority, tuple(parts))


def _resolved(parts: Iterable[str]) -> tuple[str, ...]:
    found: list[str] = []
    for part in parts:
        if part == "..":
            del found[-1:]
        elif part not in ("", "."):
            found.append(part)
    return tuple(found)


def _layout(directory: str) -> list[str]:
    """Return a snapshot's directory, and above that of a checkpoint its job's and the directory of checkpoints."""
    found = [directory]
    if CHECKPOINT_NAME.fullmatch(basename(directory)):
        found.append(parent(directory))
        if JOB_NAME.fullmatch(basename(found[-1])):
            found.append(parent(found[-1]))
    return [root for root in found if not _is_root(root)]


def _above(directory: str) -> Iterator[str]:
    """Yield a directory and those above it in which files of a moved snapshot are looked for."""
    for _ in range(_LEVELS):
        if not _is_root(directory):
            yield directory
        directory = parent(directory)


def _is_root(uri: str) -> bool:
    """Return whether a directory is the root of a file system with directories, below which everything is."""
    place = _place(uri)
    return place is None or (not place[2] and place[0] in ("file", *_ON_HOSTS))


def _is_unusual(uri: str) -> bool:
    return "%" in uri or "::" in uri or "/." in uri or _CONTROL.search(uri) is not None
