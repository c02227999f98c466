"""Prepare the directory of an export: empty, or with an export of the same snapshot that is continued."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict
from urllib.parse import quote

from stateproc.errors import InvalidOption, MissingFile
from stateproc.export.manifest import MANIFEST_NAME, ExportManifest, ExportSettings, SnapshotIdentity, saved_manifest
from stateproc.storage.store import StorePath
from stateproc.storage.writing import make_directory, remove

_ADVICE = "export into an empty directory, or with --overwrite (overwrite=True), which removes its files"


def begin(
    directory: StorePath, snapshot: SnapshotIdentity, settings: ExportSettings, overwrite: bool
) -> ExportManifest:
    """Return the manifest of the export that is continued, or a new one.

    ``overwrite``: remove the files of another export.

    Raises:
        InvalidOption: The directory contains an export of another snapshot or with other settings, or other files.
        WriteFailed: Files cannot be removed.
    """
    found = saved_manifest(directory)
    if found is None:
        _refuse_other_files(directory)
        make_directory(directory)
        return ExportManifest(directory, snapshot, settings)
    if overwrite:
        _remove_files(found)
        return ExportManifest(directory, snapshot, settings)
    if found.snapshot.metadata_sha256 != snapshot.metadata_sha256:
        raise InvalidOption(
            f"{directory} contains an export of another snapshot: {found.snapshot.path}, "
            f"checkpoint {found.snapshot.checkpoint_id}",
            advice=_ADVICE,
        )
    if found.settings != settings:
        ours = asdict(settings)
        theirs = {name: value for name, value in asdict(found.settings).items() if value != ours[name]}
        listed = ", ".join(f"{name} {value}" for name, value in theirs.items())
        raise InvalidOption(f"{directory} contains an export with other settings: {listed}", advice=_ADVICE)
    found.snapshot = snapshot
    return found


def _refuse_other_files(directory: StorePath) -> None:
    status = directory.status(fresh=True)
    if status is None:
        return
    try:
        entries = directory.entries() if status.is_directory else []
    except MissingFile:
        return
    if not status.is_directory or any(not entry.name.startswith(f".{MANIFEST_NAME}") for entry in entries):
        raise InvalidOption(
            f"{directory} contains files that are no export", advice="export into an empty or new directory"
        )


def _remove_files(manifest: ExportManifest) -> None:
    """Remove the files that a manifest lists, and the logs of Delta tables; the manifest first."""
    remove(manifest.path / MANIFEST_NAME)
    for state in manifest.states:
        for file in state.files:
            if _is_inside(file.path):
                remove(manifest.path / file.path)
        if state.folder is not None and _is_inside(state.folder):
            log = manifest.path / state.folder / "_delta_log"
            if log.exists(fresh=True):
                for entry in log.entries():
                    if not entry.is_directory:
                        remove(entry.path)


def _is_inside(path: str) -> bool:
    """Return whether a path of a manifest, which others may have edited, stays within the directory."""
    if os.sep != "/" and (os.sep in path or ":" in path):
        return False
    return not path.startswith("/") and ".." not in path.split("/") and "://" not in path


# Name the folders of operators and states: readable, valid on every file system, and unique.

_MOST_BYTES = 120


def folder_name(name: str) -> str:
    """Return a name for a folder: blanks as hyphens, and %XX for what some file system or reader treats specially."""
    hyphened = name.replace(" ", "-")
    safe = "".join(sign if _is_plain(sign) else quote(sign, safe="", errors="replace") for sign in hyphened) or "%"
    if safe[0] in "._":
        # Spark and pyarrow ignore such folders.
        safe = f"%{ord(safe[0]):02X}{safe[1:]}"
    if len(safe.encode("utf-8", "replace")) <= _MOST_BYTES:
        return safe
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{safe.encode('utf-8', 'replace')[: _MOST_BYTES - 13].decode('utf-8', 'ignore')}-{digest}"


def _is_plain(sign: str) -> bool:
    return sign.isalnum() or sign in "-_.()@+,"


class FolderNames:
    """The folders of one export; names that differ only in case are not used twice."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, *names: str) -> str:
        """Return the path of a folder for these names, from outside in, and remember it."""
        path = "/".join(map(folder_name, names))
        chosen, number = path, 1
        while chosen.casefold() in self._taken:
            number += 1
            chosen = f"{path}-{number}"
        self._taken.add(chosen.casefold())
        return chosen

    def keep(self, path: str) -> None:
        """Remember a folder of an earlier run."""
        self._taken.add(path.casefold())
