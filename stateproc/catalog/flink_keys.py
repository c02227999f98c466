"""Flink's configuration keys for checkpoints and state backends: today's names and those of earlier releases.

The names are those that the option classes of Flink 1.8 to 2.3 report (CheckpointingOptions, StateBackendOptions,
StateChangelogOptions, StateRecoveryOptions, FsStateChangelogOptions, RocksDBOptions, RocksDBConfigurableOptions):
``tests/vectors/flink-option-keys.json``.
"""

from __future__ import annotations

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
