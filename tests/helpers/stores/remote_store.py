"""A store that tests reach through fsspec, whichever kind it is."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stateproc.storage.store import StorePath


@dataclass(frozen=True)
class RemoteStore:
    """A store under test: the URI of its root, and settings of its client."""

    root: str
    options: dict[str, Any]
    uploaded: set[str] = field(default_factory=set)

    @property
    def fs(self) -> Any:
        return StorePath(self.root, self.options).filesystem()[0]

    def path(self, uri: str) -> str:
        """The path that the file system's methods take."""
        return str(StorePath(uri, self.options).filesystem()[1])

    def upload(self, directory: Path, name: str) -> str:
        """Copy a directory into the store, if it is not there yet; return its URI."""
        uri = f"{self.root}/{name}"
        if uri not in self.uploaded:
            self.put(directory, name, [item for item in directory.rglob("*") if item.is_file()])
            self.uploaded.add(uri)
        return uri

    def put(self, directory: Path, name: str, files: Sequence[Path]) -> None:
        """Copy files of a directory into the store; side by side, since HDFS takes half a second to close one."""
        fs, path = self.fs, self.path(f"{self.root}/{name}")
        with ThreadPoolExecutor(16) as pool:
            put = pool.map(lambda file: fs.pipe_file(f"{path}/{file.relative_to(directory)}", file.read_bytes()), files)
            assert len(list(put)) == len(files)

    def names(self, uri: str) -> set[str]:
        """The files below a directory, relative to it."""
        self.fs.invalidate_cache()
        root = self.path(uri)
        return {name.removeprefix(root).lstrip("/") for name in self.fs.find(root)}

    @property
    def arguments(self) -> list[str]:
        return [part for name, value in self.options.items() for part in ("--storage-options", f"{name}={value}")]
