"""Write the rows of some splits into one file, which gets its name once it is complete."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stateproc.errors import UnsupportedSnapshot
from stateproc.export.file_formats import EXPORT_FORMATS
from stateproc.export.manifest import ExportedFile, ExportSettings
from stateproc.model.schema_merging import aligned
from stateproc.readers.splits import Split
from stateproc.storage.filesystem import StorageOptions, join
from stateproc.storage.writing import OutputFile, make_directory, rename, renames

PARTIAL_PREFIX = ".part-"
"""Names of files that are being written begin so; readers of directories ignore names that begin with a dot."""


@dataclass(frozen=True)
class FileTask:
    """A file to write.

    Attributes:
        folder: Relative to the directory of the export.
        name: The file's name.
        schema: The columns.
        splits: The splits whose rows it contains.
        key_groups: The first and the last key group; None where rows belong to none.
    """

    folder: str
    name: str
    schema: pa.Schema
    splits: tuple[Split, ...]
    key_groups: tuple[int, int] | None = None

    @property
    def path(self) -> str:
        """The path relative to the directory of the export."""
        return f"{self.folder}/{self.name}"

    @property
    def bytes(self) -> int:
        """The stored bytes that are read."""
        return sum(split.bytes for split in self.splits)


class _Sink(io.RawIOBase):
    """An output file as the binary stream that writers of rows need."""

    def __init__(self, file: OutputFile) -> None:
        super().__init__()
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._file.write(view)
        return len(view)


def write_file(
    task: FileTask,
    directory: str,
    settings: ExportSettings,
    options: StorageOptions | None,
    advance: Callable[[int], None],
) -> Iterator[ExportedFile | None]:
    """Write a file.

    Args:
        task: What to write.
        directory: The directory of the export.
        settings: How.
        options: Of the directory's file system.
        advance: Called with the stored bytes of each split that is read.

    Yields:
        None after each batch, where the caller may stop; at last the complete file.

    Raises:
        WriteFailed: The file cannot be written.
        SnapshotError: The rows cannot be read.
    """
    folder = join(directory, task.folder)
    make_directory(folder, options)
    target = join(folder, task.name)
    is_renamed = renames(target)
    file = OutputFile(join(folder, PARTIAL_PREFIX + task.name) if is_renamed else target, options)
    rows = 0
    try:
        form = EXPORT_FORMATS[settings.format]
        with form.make(_Sink(file), task.schema, settings.compression) as writer:  # type: ignore[arg-type]
            for split in task.splits:
                for batch in split.read():
                    writer.write(aligned(batch, task.schema))
                    rows += len(batch)
                    yield None
                advance(split.bytes)
        # A copy of what the snapshot has need not survive a power failure: fsync takes a tenth of the time.
        file.close(durable=False)
    except pa.ArrowException as error:
        file.discard()
        raise UnsupportedSnapshot(
            f"values cannot be written as {settings.format}: {error}", advice="export the state in another format"
        ) from error
    except BaseException:
        file.discard()
        raise
    if is_renamed:
        rename(file.uri, target, options)
    yield ExportedFile(task.path, rows, file.size, task.key_groups)
