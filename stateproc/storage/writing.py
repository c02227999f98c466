"""Write files through fsspec, sequentially or atomically; every storage error becomes WriteFailed."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from stateproc.errors import SnapshotError, Where, WriteFailed
from stateproc.redaction import redacted, shown_cause
from stateproc.storage.store import StorePath
from stateproc.storage.uris import has_directories, scheme_of, store_kind

_RENAMING = frozenset({"file", "hdfs", "viewfs", "webhdfs"})
"""File systems on which a file being written can be seen, and a rename cannot be seen half done. On object stores a
single PUT is either there or not.
"""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CANNOT_COPY = frozenset({errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})
_NOT_KNOWN = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@contextmanager
def writing(target: StorePath) -> Iterator[None]:
    """Convert what a file system raises into WriteFailed about ``target``, without secret options."""
    try:
        yield
    except SnapshotError:
        raise
    except Exception as error:  # each implementation has errors of its own
        raise WriteFailed(
            f"cannot be written: {redacted(str(error), target.options) or type(error).__name__}",
            where=Where(file=target.uri),
            advice=_advice(error),
        ) from shown_cause(error, target.options)


def _advice(error: Exception) -> str:
    code = error.errno if isinstance(error, OSError) else None
    if code in _FULL:
        return "the disk is full, or a quota or limit is reached: free space or write elsewhere, then run again"
    if code in _FORBIDDEN or isinstance(error, PermissionError):
        return "check the permissions of the directory, or the credentials in the storage options"
    return "check the address and the storage options; nothing was completed, so the write can be run again"


class OutputFile:
    """A new file, written sequentially; ``close`` makes it complete and, on local disks, durable by default."""

    def __init__(self, path: StorePath) -> None:
        """Raises WriteFailed, InvalidOption; so do all methods."""
        self.path, self.size = path, 0
        fs, name = path.filesystem()
        with writing(path):
            self._file: Any = fs.open(name, "wb")

    def write(self, data: bytes | memoryview) -> None:
        with writing(self.path):
            self._file.write(data)
        self.size += len(data)

    def append(self, source_path: StorePath, start: int, size: int) -> int:
        """Append bytes of a local file as far as the kernel copies between files; return how many were copied."""
        if not (self.path.is_local and source_path.is_local) or not hasattr(os, "copy_file_range"):
            return 0
        done = 0
        with source_path.explained():
            source = open(source_path.uri, "rb", buffering=0)  # noqa: SIM115  (closed below; its errors are not the target's)
        with source, writing(self.path):
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
        with writing(self.path):
            if durable and self.path.is_local:
                self._file.flush()
                os.fsync(self._file.fileno())
            self._file.close()

    def discard(self) -> None:
        """Stop writing and remove the file. Raises nothing: it is called while another error is handled."""
        with suppress(Exception):  # the file is given up, whatever state it is in
            if self.path.is_local or not hasattr(self._file, "discard"):
                self._file.close()
            else:
                self._file.discard()
                # Else the file object would complete the upload when it is collected.
                self._file.closed = True
        remove_quietly(self.path)


def publish(target: StorePath, data: bytes, temporary: str) -> None:
    """Write a file atomically, replacing what was there.

    ``temporary``: a name in the same directory, for file systems that rename. Raises WriteFailed.
    """
    if not renames(target):
        write_file(target, data)
        return
    beside = target.parent / temporary
    write_file(beside, data)
    try:
        rename(beside, target)
    except WriteFailed:
        remove_quietly(beside)
        raise


def write_file(target: StorePath, data: bytes) -> None:
    """Write a file in place: where stores rename, part of it can be seen meanwhile. Raises WriteFailed."""
    fs, path = target.filesystem()
    if not renames(target):
        with writing(target):
            fs.pipe_file(path, data)
        return
    file = OutputFile(target)
    try:
        file.write(data)
        file.close()
    except WriteFailed:
        file.discard()
        raise


def renames(path: StorePath) -> bool:
    """Return whether files of this store are written under another name until they are complete.

    On object stores a file is there once it is complete.
    """
    return scheme_of(path.uri) in _RENAMING


def rename(source: StorePath, target: StorePath, *, durable: bool = True) -> None:
    """Rename a complete file, replacing what has the name; on local disks the new name is durable then, by default.

    Raises WriteFailed, also if ``source`` is not there any more. Clients of HDFS other than hdfs-native do not
    replace: with them, ``target`` is complete until it is removed.
    """
    (fs, old), (_, new) = source.filesystem(), target.filesystem()
    with writing(target):
        if target.is_local:
            os.replace(old, new)
            if durable:
                sync_directory(target.parent.uri)
        elif type(fs).__module__.startswith("hdfs_native"):
            fs.mv(old, new, overwrite=True)
        else:
            fs.info(old)  # WebHDFS's does not say that there was nothing to rename
            if fs.exists(new):
                fs.rm_file(new)
            fs.mv(old, new)


def file_version(path: StorePath) -> str | None:
    """Return what identifies the contents of a file for `publish_over`: empty if it does not exist.

    None where the store has no writes on a condition, or this project does not know them: all but S3.
    """
    if store_kind(path.uri) != "s3":
        return None
    fs, name = path.filesystem()
    with path.explained():
        fs.invalidate_cache()
        try:
            return str(fs.info(name).get("ETag") or "") or None
        except FileNotFoundError:
            return ""


def publish_over(target: StorePath, data: bytes, version: str) -> bool:
    """Write a file of an object store if what is there is still of a version, as `file_version` returned it.

    Returns:
        False if the store does not know the condition: then nothing was written.

    Raises:
        WriteFailed: the file cannot be written, or is of another version.
    """
    fs, path = target.filesystem()
    condition = {"IfMatch": version} if version else {"IfNoneMatch": "*"}
    with writing(target):
        try:
            # In one request, whatever its size: the condition does not reach an upload in parts.
            fs.pipe_file(path, data, chunksize=max(len(data), 1), **condition)
        except Exception as error:  # each release of the client has others for a condition that is not met
            # A client (botocore before 1.35.69), or a store, does not know writes on a condition.
            code = error.errno if isinstance(error, OSError) else None
            if code == errno.ENOSYS or type(error).__name__ == "ParamValidationError":
                return False
            try:
                changed = file_version(target) != version
                # A request that the client repeats meets what its first attempt has written.
                own = changed and target.read_range(0, len(data) + 1) == data
            except SnapshotError:
                raise error from None  # the store does not answer: what failed first is the reason
            if own:
                return True
            if not changed:
                raise
            raise WriteFailed(
                "another program has written this file meanwhile",
                where=Where(file=target.uri),
                advice="run one write at a time to a directory",
            ) from shown_cause(error, target.options)
    return True


def sync_directory(directory: str) -> None:
    """Make the entries of a local directory durable (fsync); Windows opens no directories and needs none to be."""
    if sys.platform == "win32":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems make names durable themselves and do not know this for a directory.
        if error.errno not in _NOT_KNOWN:
            raise
    finally:
        os.close(handle)


def make_directory(directory: StorePath) -> None:
    """Create a directory and its parents, where the store has directories. Raises WriteFailed."""
    if not has_directories(directory.uri):
        return
    fs, path = directory.filesystem()
    with writing(directory):
        fs.makedirs(path, exist_ok=True)


def remove(path: StorePath) -> None:
    """Remove a file; a missing file is no error. Raises WriteFailed."""
    fs, name = path.filesystem()
    with writing(path):
        try:
            fs.rm_file(name)
        except FileNotFoundError:
            return


def remove_quietly(path: StorePath) -> bool:
    """Try to remove a file; return whether it is gone. The next write removes a file that stays."""
    try:
        remove(path)
    except WriteFailed:
        return False
    return True


def remove_empty_directory(directory: StorePath) -> None:
    """Remove a directory if it is empty."""
    if not has_directories(directory.uri):
        return
    fs, path = directory.filesystem()
    with suppress(Exception):  # not empty, already gone, or not a directory: nothing to do
        fs.rmdir(path)
