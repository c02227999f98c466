"""What a Flink configuration says about snapshots: directories, backend, options of RocksDB; keys of any release."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from stateproc.errors import InvalidOption, MissingFile, Where
from stateproc.storage.store import StorageOptions, StorePath
from stateproc.storage.uris import absolute, join, normalize

if TYPE_CHECKING:
    import yaml

# Parse Flink's configuration files as Flink does: ``config.yaml`` as YAML, ``flink-conf.yaml`` line by line.
#
# org.apache.flink.configuration.GlobalConfiguration: since Flink 1.19 ``config.yaml`` is YAML 1.2 with nested or flat
# keys; up to 1.20 ``flink-conf.yaml`` has a key, a colon and a space, and a value in each line.

CONFIG_NAME, LEGACY_NAME = "config.yaml", "flink-conf.yaml"
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_MOST_KEYS = 10_000
_DEEPEST = 50


def parse_lines(text: str) -> dict[str, str]:
    """Parse ``flink-conf.yaml``.

    Everything after # is a comment, quotes belong to values, and of equal keys the last counts. Lines without a colon
    and a space are ignored, as Flink ignores them.
    """
    values = {}
    for line in io.StringIO(text, newline=None):
        key, separator, value = line.partition("#")[0].strip().partition(": ")
        if separator and key.strip() and value.strip():
            values[key.strip()] = value.strip()
    return values


def parse_yaml(text: str, file: str) -> dict[str, str]:
    """Parse ``config.yaml``; nested keys are joined by dots, lists become text such as ``[a, b]``, nulls are left out.

    Raises:
        InvalidOption: It is no YAML, not a mapping of one document, or has a key twice in one mapping.
    """
    import yaml  # Lazy: start-up.

    try:
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise InvalidOption(f"this is no YAML: {reason}", where=Where(file=file), advice=_ADVICE) from error
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        raise InvalidOption("this YAML contains no keys", where=Where(file=file), advice=_ADVICE)
    return dict(_Flattening(file).entries(root, "", 0))


_ADVICE = f"give Flink's {CONFIG_NAME} (Flink 1.19 and newer) or {LEGACY_NAME}, or the directory that contains it"


@dataclass
class _Flattening:
    """Joins nested keys by dots; counts them, because aliases can make a small file describe billions."""

    file: str
    visited: int = 0

    def entries(self, mapping: yaml.MappingNode, prefix: str, depth: int) -> Iterator[tuple[str, str]]:
        import yaml

        seen: set[str] = set()
        for key_node, node in mapping.value:
            line = key_node.start_mark.line + 1
            self.visited += 1
            if self.visited > _MOST_KEYS or depth > _DEEPEST:
                raise self._refused("too many keys, or nested too deeply", line)
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._refused("a key that is no text", line)
            if key_node.value in seen:
                raise self._refused(f"the key {key_node.value} is there twice", line)
            seen.add(key_node.value)
            key = prefix + key_node.value
            if isinstance(node, yaml.MappingNode):
                yield from self.entries(node, key + ".", depth + 1)
            elif isinstance(node, yaml.SequenceNode):
                yield key, _list_text(node)
            elif node.style is not None or node.value not in _NULLS:
                yield key, node.value

    def _refused(self, what: str, line: int) -> InvalidOption:
        advice = f"Flink does not start with such a file: correct line {line}"
        return InvalidOption(f"{what}, line {line}", where=Where(file=self.file), advice=advice)


def _list_text(node: Any) -> str:
    """Return a list as text; lists within it are shown by dots only, no key of a state backend has any."""
    return "[" + ", ".join(item.value if isinstance(item.value, str) else "…" for item in node.value) + "]"


# Flink's configuration keys for checkpoints and state backends: today's names and those of earlier releases.
#
# The names are those that the option classes of Flink 1.8 to 2.3 report (CheckpointingOptions, StateBackendOptions,
# StateChangelogOptions, StateRecoveryOptions, FsStateChangelogOptions, RocksDBOptions, RocksDBConfigurableOptions):
# ``tests/vectors/flink-option-keys.json``.

CHECKPOINT_DIRECTORY = "execution.checkpointing.dir"
SAVEPOINT_DIRECTORY = "execution.checkpointing.savepoint-dir"
CHANGELOG_DIRECTORY = "state.changelog.dstl.dfs.base-path"
BACKEND = "state.backend.type"
STORAGE = "execution.checkpointing.storage"
INCREMENTAL = "execution.checkpointing.incremental"
CHANGELOG = "state.changelog.enabled"
RETAINED = "execution.checkpointing.num-retained"
DEFAULT_SCHEME = "fs.default-scheme"
ENTROPY_KEY = "s3.entropy.key"
ROCKSDB_PREFIX = "state.backend.rocksdb."
FORST_PREFIX = "state.backend.forst."

_CHECKPOINTING = "execution.checkpointing."
_RECOVERY = "execution.state-recovery."
_CHANGELOG = "state.changelog."

EARLIER_NAMES: dict[str, tuple[str, ...]] = {
    BACKEND: ("state.backend",),
    CHECKPOINT_DIRECTORY: ("state.checkpoints.dir", "state.backend.fs.checkpointdir"),
    SAVEPOINT_DIRECTORY: ("state.savepoints.dir", "savepoints.state.backend.fs.dir"),
    STORAGE: ("state.checkpoint-storage",),
    INCREMENTAL: ("state.backend.incremental",),
    RETAINED: ("state.checkpoints.num-retained",),
    _CHECKPOINTING + "cleaner.parallel-mode": ("state.checkpoint.cleaner.parallel-mode",),
    _CHECKPOINTING + "create-subdir": ("state.checkpoints.create-subdir",),
    _CHECKPOINTING + "data-inline-threshold": (
        "state.storage.fs.memory-threshold",
        "state.backend.fs.memory-threshold",
    ),
    _CHECKPOINTING + "write-buffer-size": ("state.storage.fs.write-buffer-size", "state.backend.fs.write-buffer-size"),
    _CHECKPOINTING + "local-backup.dirs": ("taskmanager.state.local.root-dirs",),
    _CHECKPOINTING + "local-backup.enabled": (_RECOVERY + "from-local", "state.backend.local-recovery"),
    _CHECKPOINTING + "unaligned.enabled": (_CHECKPOINTING + "unaligned",),
    _CHECKPOINTING + "aligned-checkpoint-timeout": (_CHECKPOINTING + "alignment-timeout",),
    _CHECKPOINTING + "checkpoints-after-tasks-finish": (_CHECKPOINTING + "checkpoints-after-tasks-finish.enabled",),
    _RECOVERY + "path": ("execution.savepoint.path",),
    _RECOVERY + "claim-mode": ("execution.savepoint-restore-mode",),
    _RECOVERY + "ignore-unclaimed-state": ("execution.savepoint.ignore-unclaimed-state",),
    _RECOVERY + "from-local": ("state.backend.local-recovery",),
    _RECOVERY + "approximate-local-recovery": (_CHECKPOINTING + "approximate-local-recovery",),
    _RECOVERY + "without-channel-state.checkpoint-id": (
        _CHECKPOINTING + "recover-without-channel-state.checkpoint-id",
    ),
    CHANGELOG: ("state.backend.changelog.enabled",),
    **{
        _CHANGELOG + name: ("state.backend.changelog." + name,)
        for name in (
            "storage",
            "max-failures-allowed",
            "periodic-materialize.enabled",
            "periodic-materialize.interval",
        )
    },
    **{
        f"{_CHANGELOG}dstl.dfs.{name}": (f"dstl.dfs.{name}",)
        for name in (
            "base-path",
            "batch.persist-delay",
            "batch.persist-size-threshold",
            "compression.enabled",
            "discard.num-threads",
            "download.local-cache.idle-timeout-ms",
            "preemptive-persist-threshold",
            "upload.buffer-size",
            "upload.max-attempts",
            "upload.max-in-flight",
            "upload.next-attempt-delay",
            "upload.num-threads",
            "upload.retry-policy",
            "upload.timeout",
        )
    },
    ROCKSDB_PREFIX + "localdir": (ROCKSDB_PREFIX + "checkpointdir",),
}
"""Key of Flink 2.3 → its earlier names, in the order in which Flink looks them up. Keys without any are not listed."""

LATER_NAMES: dict[str, str] = {}
"""Earlier name → key of Flink 2.3."""
for _key, _names in EARLIER_NAMES.items():
    for _name in _names:
        LATER_NAMES.setdefault(_name, _key)

BACKEND_NAMES = {
    "jobmanager": "hashmap",
    "filesystem": "hashmap",
    "hashmap": "hashmap",
    "rocksdb": "rocksdb",
    "forst": "forst",
}
"""Short names of backends in any release (StateBackendLoader) → the backend's name since Flink 1.13."""


_MOST_BYTES = 4 << 20
_DIRECTORIES = (CHECKPOINT_DIRECTORY, SAVEPOINT_DIRECTORY, CHANGELOG_DIRECTORY)
_SHOWN = (BACKEND, STORAGE, INCREMENTAL, CHANGELOG, RETAINED, *_DIRECTORIES)


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

    @property
    def state_roots(self) -> tuple[str, ...]:
        """The directories in which jobs keep files of their state: those of snapshots, and that of changelogs."""
        changelogs = self._directory(CHANGELOG_DIRECTORY)
        return self.directories if changelogs is None else (*self.directories, changelogs)

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
        if not path or absolute(path) == normalize(path) or StorePath.of(path, storage_options).exists():
            return path
        found = [join(directory, path) for directory in self.directories]
        for candidate in found:
            if StorePath(candidate, storage_options or {}).exists():
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
    file, size = _file_of(StorePath.of(path, storage_options))
    where = Where(file=file.uri)
    if size > _MOST_BYTES:
        raise InvalidOption(f"{size} bytes, which no Flink configuration has", where=where)
    data = file.read_range(0, size)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidOption("this is no text in UTF-8", where=replace(where, offset=error.start)) from error
    is_legacy = file.name.startswith(LEGACY_NAME.partition(".")[0])
    return FlinkConfiguration(file.uri, parse_lines(text) if is_legacy else parse_yaml(text, file.uri))


def _file_of(path: StorePath) -> tuple[StorePath, int]:
    where, status = Where(file=path.uri), path.status()
    if status is None:
        advice = f"give the path of Flink's {CONFIG_NAME} or {LEGACY_NAME}"
        raise MissingFile("no such Flink configuration", where=where, advice=advice)
    if not status.is_directory:
        return path, status.size
    inside = [(path / name, (path / name).file_status()) for name in (CONFIG_NAME, LEGACY_NAME)]
    files = [(file, found.size) for file, found in inside if found is not None]
    if not files:
        raise MissingFile(f"neither {CONFIG_NAME} nor {LEGACY_NAME} is here", where=where)
    if len(files) > 1:
        advice = f"give the path of one: Flink 1.19 and 1.20 read {LEGACY_NAME}, Flink 2.x {CONFIG_NAME}"
        raise InvalidOption(f"both {CONFIG_NAME} and {LEGACY_NAME} are here", where=where, advice=advice)
    return files[0]
