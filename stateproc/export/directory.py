"""Prepare the directory of an export: empty, or with an export of the same snapshot that is continued."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from urllib.parse import quote

from stateproc.errors import InvalidOption, MissingFile
from stateproc.export.manifest import MANIFEST_NAME, ExportManifest, ExportSettings, SnapshotIdentity, saved_manifest
from stateproc.storage.filesystem import StorageOptions, join, kind_of, list_directory
from stateproc.storage.writing import make_directory, remove

_ADVICE = "export into an empty directory, or with --overwrite (overwrite=True), which removes its files"


def begin(
    directory: str,
    snapshot: SnapshotIdentity,
    settings: ExportSettings,
    overwrite: bool,
    options: StorageOptions | None,
) -> ExportManifest:
    """Return the manifest of the export that is continued, or a new one.

    Args:
        directory: The directory; it is created.
        snapshot: What is exported.
        settings: How.
        overwrite: Remove the files of another export that is there.
        options: Of the directory's file system.

    Raises:
        InvalidOption: The directory contains an export of another snapshot or with other settings, or other files.
        WriteFailed: Files cannot be removed.
    """
    found = saved_manifest(directory, options)
    if found is None:
        _refuse_other_files(directory, options)
        make_directory(directory, options)
        return ExportManifest(directory, snapshot, settings)
    if overwrite:
        _remove_files(found, options)
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


def _refuse_other_files(directory: str, options: StorageOptions | None) -> None:
    kind = kind_of(directory, options, fresh=True)
    if kind is None:
        return
    try:
        entries = [] if kind[0] != "directory" else list_directory(directory, options)
    except MissingFile:
        return
    if kind[0] != "directory" or any(not entry.name.startswith(f".{MANIFEST_NAME}") for entry in entries):
        raise InvalidOption(
            f"{directory} contains files that are no export", advice="export into an empty or new directory"
        )


def _remove_files(manifest: ExportManifest, options: StorageOptions | None) -> None:
    """Remove the files that a manifest lists, and the logs of Delta tables; the manifest first."""
    remove(join(manifest.directory, MANIFEST_NAME), options)
    for state in manifest.states:
        for file in state.files:
            if _is_inside(file.path):
                remove(join(manifest.directory, file.path), options)
        if state.folder is not None and _is_inside(state.folder):
            log = join(manifest.directory, state.folder, "_delta_log")
            if kind_of(log, options, fresh=True) is not None:
                for entry in list_directory(log, options):
                    if not entry.is_directory:
                        remove(join(log, entry.name), options)


def _is_inside(path: str) -> bool:
    """Return whether a path of a manifest, which others may have edited, stays within the directory."""
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
