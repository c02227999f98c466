"""What a Flink configuration says about snapshots: directories, backend, options of RocksDB; keys of any release."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stateproc.catalog.flink_conf_files import CONFIG_NAME, LEGACY_NAME, parse_lines, parse_yaml
from stateproc.catalog.flink_keys import (
    BACKEND,
    BACKEND_NAMES,
    CHANGELOG,
    CHANGELOG_DIRECTORY,
    CHECKPOINT_DIRECTORY,
    DEFAULT_SCHEME,
    EARLIER_NAMES,
    ENTROPY_KEY,
    FORST_PREFIX,
    INCREMENTAL,
    LATER_NAMES,
    RETAINED,
    ROCKSDB_PREFIX,
    SAVEPOINT_DIRECTORY,
    STORAGE,
)
from stateproc.errors import InvalidOption, MissingFile, Where
from stateproc.storage.filesystem import StorageOptions, absolute, basename, join, kind_of, normalize, read_range

_MOST_BYTES = 4 << 20
_SHOWN = (
    BACKEND, STORAGE, INCREMENTAL, CHANGELOG, RETAINED, CHECKPOINT_DIRECTORY, SAVEPOINT_DIRECTORY, CHANGELOG_DIRECTORY,
)  # fmt: skip


@dataclass(frozen=True)
class FlinkSetting:
    """A value and the key it is written under, which may be an earlier name of ``key``."""

    key: str
    value: str
    written_as: str


@dataclass(frozen=True)
class FlinkConfiguration:
    """A Flink configuration file.

    Attributes:
        path: The file.
        values: Every key as it is written, with its value.
    """

    path: str
    values: Mapping[str, str] = field(hash=False, repr=False)  # may contain secrets

    def setting(self, key: str) -> FlinkSetting | None:
        """Return the value of a key, which Flink looks up under its present name first, then under earlier ones.

        Args:
            key: Any name that a release from 1.8 to 2.3 has for it.
        """
        key = key if key in EARLIER_NAMES else LATER_NAMES.get(key, key)
        for name in (key, *EARLIER_NAMES.get(key, ())):
            if name in self.values:
                return FlinkSetting(key, self.values[name], name)
        return None

    def get(self, key: str) -> str | None:
        """Return the value of a key under any of its names; None if it is not there."""
        found = self.setting(key)
        return None if found is None else found.value

    @property
    def backend(self) -> str | None:
        """The state backend: hashmap, rocksdb, forst or the class of a factory; None if Flink's default applies."""
        given = self.get(BACKEND)
        if given is None:
            return None
        if given.endswith("RocksDBStateBackendFactory"):
            return "rocksdb"
        return BACKEND_NAMES.get(given.lower(), given)

    @property
    def incremental(self) -> bool:
        """Whether RocksDB checkpoints are incremental."""
        return (self.get(INCREMENTAL) or "").lower() == "true"

    @property
    def changelog(self) -> bool:
        """Whether the changelog state backend is on."""
        return (self.get(CHANGELOG) or "").lower() == "true"

    @property
    def checkpoint_directory(self) -> str | None:
        """The directory of the jobs' checkpoint directories."""
        return self._directory(CHECKPOINT_DIRECTORY)

    @property
    def savepoint_directory(self) -> str | None:
        """The directory where savepoints are written unless a job or command names another."""
        return self._directory(SAVEPOINT_DIRECTORY)

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories of checkpoints and savepoints, as far as they are there."""
        found = (self.checkpoint_directory, self.savepoint_directory)
        return tuple(dict.fromkeys(path for path in found if path))

    def find(self, path: str, storage_options: StorageOptions | None = None) -> str:
        """Return where the snapshot is that a path means, such as a savepoint's name or a job id.

        Args:
            path: A path that exists, is absolute or has a scheme is returned as it is; any other is looked for below
                the directories of checkpoints and savepoints.
            storage_options: Keyword arguments of the fsspec file system.

        Raises:
            MissingFile: It is below none of the directories.
            AccessDenied, StoreUnavailable: One of them cannot be read.
        """
        if not path or absolute(path) == normalize(path) or kind_of(absolute(path), storage_options) is not None:
            return path
        found = [join(directory, path) for directory in self.directories]
        for candidate in found:
            if kind_of(candidate, storage_options) is not None:
                return candidate
        raise MissingFile(
            f"nothing there: no '{path}' here, nor in {' or '.join(self.directories) or 'the configuration'}",
            where=Where(file=self.path),
            advice=f"stateproc ls --conf {self.path} lists the snapshots",
        )

    @property
    def settings(self) -> tuple[FlinkSetting, ...]:
        """The settings about snapshots that are there, under their present keys: backend, directories, RocksDB's."""
        general = [found for key in _SHOWN if (found := self.setting(key)) is not None]
        backends = [
            found
            for key in sorted({LATER_NAMES.get(name, name) for name in self.values})
            if key.startswith((ROCKSDB_PREFIX, FORST_PREFIX)) and (found := self.setting(key)) is not None
        ]
        return (*general, *backends)

    def _directory(self, key: str) -> str | None:
        """Return a directory as Flink finds it: with the default scheme, without the marker for random prefixes."""
        path = self.get(key)
        if not path:
            return None
        entropy = self.get(ENTROPY_KEY)
        if entropy:
            # Only state files get random characters there; _metadata is written without them.
            path = path.replace(f"/{entropy}/", "/", 1).removesuffix(f"/{entropy}")
        scheme = self.get(DEFAULT_SCHEME)
        if path.startswith("/") and scheme and not scheme.startswith("file:"):
            path = scheme.rstrip("/") + path
        return absolute(path)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings about snapshots as JSON values."""
        return {
            "path": self.path,
            "backend": self.backend,
            "checkpoint_directory": self.checkpoint_directory,
            "savepoint_directory": self.savepoint_directory,
            "settings": [
                {"key": item.key, "value": item.value, "written_as": item.written_as} for item in self.settings
            ],
        }


def flink_configuration(
    path: str | os.PathLike[str], storage_options: StorageOptions | None = None
) -> FlinkConfiguration:
    """Read a Flink configuration.

    Args:
        path: ``config.yaml``, ``flink-conf.yaml`` (every name that begins with ``flink-conf``), or their directory.
        storage_options: Keyword arguments of the fsspec file system, for a file that is not local.

    Raises:
        MissingFile: There is no such file.
        InvalidOption: Flink could not read the file either, or the directory contains both files.
    """
    file, size = _file_of(absolute(os.fspath(path)), storage_options)
    if size > _MOST_BYTES:
        raise InvalidOption(f"{size} bytes, which no Flink configuration has", where=Where(file=file))
    data = read_range(file, 0, size, storage_options)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidOption("this is no text in UTF-8", where=Where(file=file, offset=error.start)) from error
    is_legacy = basename(file).startswith(LEGACY_NAME.partition(".")[0])
    return FlinkConfiguration(file, parse_lines(text) if is_legacy else parse_yaml(text, file))


def _file_of(path: str, options: StorageOptions | None) -> tuple[str, int]:
    kind = kind_of(path, options)
    if kind is None:
        advice = f"give the path of Flink's {CONFIG_NAME} or {LEGACY_NAME}"
        raise MissingFile("no such Flink configuration", where=Where(file=path), advice=advice)
    if kind[0] == "file":
        return path, kind[1]
    inside = [(join(path, name), kind_of(join(path, name), options)) for name in (CONFIG_NAME, LEGACY_NAME)]
    files = [(file, found[1]) for file, found in inside if found is not None and found[0] == "file"]
    if not files:
        raise MissingFile(f"neither {CONFIG_NAME} nor {LEGACY_NAME} is here", where=Where(file=path))
    if len(files) > 1:
        advice = f"give the path of one: Flink 1.19 and 1.20 read {LEGACY_NAME}, Flink 2.x {CONFIG_NAME}"
        raise InvalidOption(f"both {CONFIG_NAME} and {LEGACY_NAME} are here", where=Where(file=path), advice=advice)
    return files[0]
