"""The pointer to the newest savepoint: a file with its path, which is replaced atomically."""

from __future__ import annotations

from stateproc.errors import CorruptSnapshot, MissingFile, Where
from stateproc.storage.filesystem import StorageOptions, absolute, basename, kind_of, parent, read_range
from stateproc.storage.writing import make_directory, publish

_MOST_BYTES = 8 << 10


def pointed_path(pointer: str, options: StorageOptions | None) -> str:
    """Return the path that a pointer contains.

    Raises:
        MissingFile: There is no such file.
        CorruptSnapshot: The file contains no path.
    """
    uri = absolute(pointer)
    found = kind_of(uri, options, fresh=True)
    if found is None or found[0] != "file":
        raise MissingFile(
            "there is no such pointer", where=Where(file=uri), advice="the first run of a job with `latest:` writes it"
        ) from FileNotFoundError(uri)
    text = read_range(uri, 0, min(found[1], _MOST_BYTES), options).decode("utf-8", "replace").strip()
    if not text or "\n" in text or found[1] >= _MOST_BYTES:
        raise CorruptSnapshot("the file does not contain the path of a snapshot", where=Where(file=uri))
    return text


def switch(pointer: str, directory: str, options: StorageOptions | None) -> None:
    """Let a pointer contain the path of a savepoint: by one rename, on object stores by one put. Raises WriteFailed."""
    uri = absolute(pointer)
    make_directory(parent(uri), options)
    publish(uri, f"{directory}\n".encode(), f".{basename(uri)}.part", options)
