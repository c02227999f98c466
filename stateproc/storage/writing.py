"""Write files through fsspec, sequentially or atomically; every storage error becomes WriteFailed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from stateproc.errors import SnapshotError, Where, WriteFailed
from stateproc.redaction import redacted, shown_cause
from stateproc.storage.filesystem import StorageOptions, explained, filesystem, has_directories, join, parent, scheme_of

_RENAMING = frozenset({"file", "hdfs", "viewfs", "webhdfs"})
"""File systems on which a file being written can be seen, and a rename cannot be seen half done. On object stores a
single PUT is either there or not.
"""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CANNOT_COPY = frozenset({errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@contextmanager
def writing(uri: str, options: StorageOptions | None = None) -> Iterator[None]:
    """Convert what a file system raises into WriteFailed about ``uri``, without secret options."""
    try:
        yield
    except SnapshotError:
        raise
    except Exception as error:  # each implementation has errors of its own
        raise WriteFailed(
            f"cannot be written: {redacted(str(error), options) or type(error).__name__}",
            where=Where(file=uri),
            advice=_advice(error),
        ) from shown_cause(error, options)


def _advice(error: Exception) -> str:
    code = error.errno if isinstance(error, OSError) else None
    if code in _FULL:
        return "the disk is full, or a quota or limit is reached: free space or write elsewhere, then run again"
    if code in _FORBIDDEN or isinstance(error, PermissionError):
        return "check the permissions of the directory, or the credentials in the storage options"
    return "check the address and the storage options; nothing was completed, so the write can be run again"


class OutputFile:
    """A new file, written sequentially; ``close`` makes it complete and, on local disks, durable by default."""

    def __init__(self, uri: str, options: StorageOptions | None = None) -> None:
        """Raises WriteFailed, InvalidOption; so do all methods."""
        self.uri, self.size, self._options = uri, 0, options
        fs, path = filesystem(uri, options)
        with writing(uri, options):
            self._file: Any = fs.open(path, "wb")

    def write(self, data: bytes | memoryview) -> None:
        with writing(self.uri, self._options):
            self._file.write(data)
        self.size += len(data)

    def append(self, path: str, start: int, size: int) -> int:
        """Append bytes of a local file as far as the kernel copies between files; return how many were copied."""
        if scheme_of(self.uri) != "file" or not hasattr(os, "copy_file_range"):
            return 0
        done = 0
        with explained(path):
            source = open(path, "rb", buffering=0)  # noqa: SIM115  (closed below; its errors are not the target's)
        with source, writing(self.uri, self._options):
            self._file.flush()
            try:
                while done < size:
                    copied = os.copy_file_range(source.fileno(), self._file.fileno(), size - done, start + done)
                    if not copied:
                        break
                    done += copied
            except OSError as error:
                # Between such file systems, or on such a kernel, bytes have to be read and written.
                if error.errno not in _CANNOT_COPY:
                    raise
        self.size += done
        return done

    def close(self, *, durable: bool = True) -> None:
        with writing(self.uri, self._options):
            if durable and scheme_of(self.uri) == "file":
                self._file.flush()
                os.fsync(self._file.fileno())
            self._file.close()

    def discard(self) -> None:
        """Stop writing and remove the file. Raises nothing: it is called while another error is handled."""
        with suppress(Exception):  # the file is given up, whatever state it is in
            if scheme_of(self.uri) == "file" or not hasattr(self._file, "discard"):
                self._file.close()
            else:
                self._file.discard()
                # Else the file object would complete the upload when it is collected.
                self._file.closed = True
        remove_quietly(self.uri, self._options)


def publish(uri: str, data: bytes, temporary: str, options: StorageOptions | None = None) -> None:
    """Write ``data`` to ``uri`` atomically, replacing what was there.

    ``temporary``: a name in the same directory, for file systems that rename. Raises WriteFailed.
    """
    fs, path = filesystem(uri, options)
    scheme = scheme_of(uri)
    if scheme not in _RENAMING:
        with writing(uri, options):
            fs.pipe_file(path, data)
        return
    beside = OutputFile(join(parent(uri), temporary), options)
    try:
        beside.write(data)
        beside.close()
        with writing(uri, options):
            if scheme == "file":
                os.replace(beside.uri, path)
                sync_directory(parent(uri))
            else:
                _rename(fs, filesystem(beside.uri, options)[1], path)
    except WriteFailed:
        beside.discard()
        raise


def renames(uri: str) -> bool:
    """Return whether files of this store are written under another name until they are complete.

    On object stores a file is there once it is complete.
    """
    return scheme_of(uri) in _RENAMING


def rename(uri: str, target: str, options: StorageOptions | None = None) -> None:
    """Rename a complete file, replacing what has the name. Raises WriteFailed."""
    fs, path = filesystem(uri, options)
    with writing(target, options):
        if scheme_of(uri) == "file":
            os.replace(path, filesystem(target, options)[1])
        else:
            _rename(fs, path, filesystem(target, options)[1])


def _rename(fs: Any, source: str, target: str) -> None:
    """Rename on HDFS, which does not replace: ``target`` is complete until it is removed."""
    if fs.exists(target):
        fs.rm_file(target)
    fs.mv(source, target)


def sync_directory(directory: str) -> None:
    """Make the entries of a local directory durable (fsync)."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_directory(uri: str, options: StorageOptions | None = None) -> None:
    """Create a directory and its parents, where the store has directories. Raises WriteFailed."""
    if not has_directories(uri):
        return
    fs, path = filesystem(uri, options)
    with writing(uri, options):
        fs.makedirs(path, exist_ok=True)


def remove(uri: str, options: StorageOptions | None = None) -> None:
    """Remove a file; a missing file is no error. Raises WriteFailed."""
    fs, path = filesystem(uri, options)
    with writing(uri, options):
        try:
            fs.rm_file(path)
        except FileNotFoundError:
            return


def remove_quietly(uri: str, options: StorageOptions | None = None) -> bool:
    """Try to remove a file; return whether it is gone. The next write removes a file that stays."""
    try:
        remove(uri, options)
    except WriteFailed:
        return False
    return True


def remove_empty_directory(uri: str, options: StorageOptions | None = None) -> None:
    """Remove a directory if it is empty."""
    if not has_directories(uri):
        return
    fs, path = filesystem(uri, options)
    with suppress(Exception):  # not empty, already gone, or not a directory: nothing to do
        fs.rmdir(path)
