"""Which cases each Flink release writes: a job × a mode, as rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.helpers.flink.jars import RELEASES, line_number


@dataclass(frozen=True)
class Case:
    """One snapshot to write; `snapshot` is `canonical`, `native` or `checkpoint`."""

    job: str
    mode: str
    backend: str
    snapshot: str
    parallelism: int = 2
    max_parallelism: int = 128
    compression: bool = False
    options: tuple[tuple[str, str], ...] = ()
    since: tuple[int, int] = (1, 8)
    until: tuple[int, int] = (2, 99)

    @property
    def name(self) -> str:
        """The folder of the case below its release."""
        return f"{self.job}-{self.mode}" if self.mode else self.job


JOBS = {
    "kitchen": ("Jobs", "kitchen"),
    "windows": ("Jobs", "windows"),
    "operators": ("Jobs", "operators"),
    "tiny": ("Jobs", "tiny"),
    "demo": ("Demo", "shop"),
    "kafka": ("Demo", "kafka"),
    "finished": ("Finishing", "job"),
    "hooks": ("Hooks", "job"),
    "edges": ("Edges", "job"),
    "sql": ("Sql", "job"),
    "sql-sessions": ("Sql", "sessions"),
    "big": ("Big", "keys"),
    "large": ("Large", "job"),
    "many-states": ("ManyStates", "job"),
    "corners": ("Corners", "job"),
    "sinks": ("Sinks", "job"),
    "inflight": ("InFlight", "job"),
    "chain": ("Chains", "job"),
    "chain-small": ("Chains", "small"),
    "chain-untimed": ("Chains", "untimed"),
    "chain-expiring": ("Chains", "expiring"),
    "chain-async": ("AsyncChains", "job"),
    "chain-sessions": ("Sessions", "job"),
    "feed": ("Feeds", "job"),
}
"""Job → the Java class and method that build it."""

INLINE = (("state.backend.fs.memory-threshold", "1mb"), ("state.storage.fs.memory-threshold", "1mb"))
FILES = (("state.backend.fs.memory-threshold", "0"), ("state.storage.fs.memory-threshold", "0"))
HEAP_TIMERS = (("state.backend.rocksdb.timer-service.factory", "HEAP"),)
ROCKSDB_TIMERS = (("state.backend.rocksdb.timer-service.factory", "ROCKSDB"),)
INCREMENTAL = (("state.backend.incremental", "true"), ("execution.checkpointing.incremental", "true"))

MAIN = (
    Case("", "hashmap-canonical", "hashmap", "canonical", options=FILES),
    Case("", "rocksdb-canonical", "rocksdb", "canonical", options=FILES + ROCKSDB_TIMERS),
    Case("", "hashmap-checkpoint", "hashmap", "checkpoint", options=FILES),
    Case(
        "",
        "rocksdb-incremental",
        "rocksdb",
        "checkpoint",
        parallelism=1,
        options=FILES + INCREMENTAL + ROCKSDB_TIMERS,
    ),
)
MORE = (
    Case("", "hashmap-canonical-inline", "hashmap", "canonical", options=INLINE),
    Case("", "hashmap-canonical-snappy", "hashmap", "canonical", compression=True, options=FILES),
    Case(
        "",
        "rocksdb-canonical-snappy",
        "rocksdb",
        "canonical",
        compression=True,
        options=FILES + ROCKSDB_TIMERS,
    ),
    Case("", "rocksdb-canonical-heaptimers", "rocksdb", "canonical", options=FILES + HEAP_TIMERS),
    Case("", "hashmap-canonical-1024", "hashmap", "canonical", max_parallelism=1024, options=INLINE),
    Case("", "rocksdb-canonical-1024", "rocksdb", "canonical", 1, 1024, options=INLINE + ROCKSDB_TIMERS),
    Case("", "hashmap-checkpoint-1024", "hashmap", "checkpoint", 1, 1024, options=INLINE),
    Case("", "hashmap-checkpoint-snappy", "hashmap", "checkpoint", 1, compression=True, options=FILES),
    Case("", "hashmap-checkpoint-inline", "hashmap", "checkpoint", options=INLINE),
    Case("", "rocksdb-full", "rocksdb", "checkpoint", 1, options=FILES + ROCKSDB_TIMERS),
    Case("", "rocksdb-full-heaptimers", "rocksdb", "checkpoint", 1, options=FILES + HEAP_TIMERS),
    Case("", "hashmap-native", "hashmap", "native", options=FILES, since=(1, 15)),
    Case("", "rocksdb-native", "rocksdb", "native", 1, options=FILES + ROCKSDB_TIMERS, since=(1, 15)),
)
"""Modes every job is run in, and modes only the newest releases write."""

FULL = ("1.20", "2.3")

ALSO_WINDOWS = (
    "hashmap-canonical",
    "rocksdb-canonical",
    "hashmap-checkpoint",
    "hashmap-canonical-1024",
    "rocksdb-canonical-snappy",
)
ALSO_OPERATORS = (
    "hashmap-canonical",
    "rocksdb-canonical",
    "hashmap-checkpoint",
    "hashmap-canonical-inline",
    "hashmap-canonical-snappy",
)
BULKY = (
    "rocksdb-full",
    "rocksdb-full-heaptimers",
    "rocksdb-native",
    "rocksdb-canonical-1024",
    "hashmap-checkpoint-1024",
    "hashmap-checkpoint-snappy",
    "hashmap-checkpoint-inline",
    "hashmap-canonical-inline",
    "hashmap-canonical-1024",
    "rocksdb-canonical-heaptimers",
)
"""Modes whose files are big however little they hold: written with the smallest job."""

NEWEST = (
    *(("tiny" if mode.mode in BULKY else "kitchen", mode.mode, mode.parallelism) for mode in MAIN + MORE),
    *(("windows", mode, 2) for mode in ALSO_WINDOWS),
    *(("operators", mode, 2) for mode in ALSO_OPERATORS),
)
BETWEEN = (
    ("kitchen", "hashmap-canonical", 1),
    ("windows", "rocksdb-canonical", 1),
    ("operators", "hashmap-canonical", 2),
    ("tiny", "rocksdb-incremental", 1),
)
TURNING = (
    *BETWEEN,
    ("tiny", "rocksdb-canonical", 2),
    ("kitchen", "hashmap-checkpoint", 1),
)
TURNING_POINTS = ("1.8", "1.11", "1.12", "1.13", "1.16", "1.18", "2.0")
"""The releases with which layouts changed, and the last of the old backends; those between write less."""

CHANGELOG = (
    ("state.changelog.enabled", "true"),
    ("state.backend.changelog.enabled", "true"),
    ("state.changelog.storage", "filesystem"),
    ("state.backend.changelog.storage", "filesystem"),
    ("dstl.dfs.base-path", "{snapshots}"),
)
IN_MEMORY = (("state.changelog.storage", "memory"), ("state.backend.changelog.storage", "memory"))
MATERIALIZED = (
    ("state.changelog.periodic-materialize.interval", "500ms"),
    ("state.backend.changelog.periodic-materialize.interval", "500ms"),
)
FILE_MERGING = (("execution.checkpointing.file-merging.enabled", "true"),)
UNALIGNED = (
    ("execution.checkpointing.unaligned.enabled", "true"),
    ("execution.checkpointing.aligned-checkpoint-timeout", "0 ms"),
    ("taskmanager.memory.segment-size", "4kb"),
    ("taskmanager.network.memory.buffers-per-channel", "1"),
    ("taskmanager.network.memory.floating-buffers-per-gate", "1"),
)
"""In-flight records go into the checkpoint; small buffers, so that it stays small."""
JOBMANAGER_STORAGE = (
    ("state.checkpoint-storage", "jobmanager"),
    ("execution.checkpointing.storage", "jobmanager"),
)
REGISTERED = (("pipeline.serialization-config", "[fixtures.Edges$Cat: {type: pojo}]"),)
SPECIAL = (
    Case("demo", "", "hashmap", "canonical", until=(1, 20)),
    Case("kafka", "hashmap-checkpoint", "hashmap", "checkpoint"),
    Case("kafka", "rocksdb-canonical", "rocksdb", "canonical"),
    Case("kafka", "rocksdb-incremental", "rocksdb", "checkpoint", options=INCREMENTAL + ROCKSDB_TIMERS),
    Case("kafka", "rocksdb-changelog", "rocksdb", "checkpoint", options=FILES + CHANGELOG + MATERIALIZED),
    Case("edges", "hashmap-canonical", "hashmap", "canonical", 1, options=REGISTERED),
    Case("edges", "rocksdb-canonical", "rocksdb", "canonical", 1, options=REGISTERED),
    Case("edges", "hashmap-checkpoint", "hashmap", "checkpoint", 1, options=REGISTERED),
    Case("sql", "hashmap-canonical", "hashmap", "canonical"),
    Case("sql", "rocksdb-canonical", "rocksdb", "canonical"),
    Case("sql", "hashmap-checkpoint", "hashmap", "checkpoint"),
    Case("sql-sessions", "hashmap-canonical", "hashmap", "canonical"),
    Case("sql-sessions", "hashmap-checkpoint", "hashmap", "checkpoint"),
    Case("finished", "hashmap-checkpoint", "hashmap", "checkpoint"),
    Case("hooks", "hashmap-canonical", "hashmap", "canonical", options=INLINE),
    Case("corners", "hashmap-canonical", "hashmap", "canonical", options=FILES),
    Case("corners", "hashmap-checkpoint", "hashmap", "checkpoint", options=FILES),
    Case("corners", "hashmap-native", "hashmap", "native", options=FILES),
    Case("corners", "rocksdb-canonical", "rocksdb", "canonical", options=FILES + ROCKSDB_TIMERS),
    Case("many-states", "hashmap-canonical", "hashmap", "canonical", 1, options=FILES),
    Case("many-states", "hashmap-checkpoint", "hashmap", "checkpoint", 1, options=FILES),
    Case("many-states", "hashmap-checkpoint-snappy", "hashmap", "checkpoint", 1, compression=True, options=FILES),
    Case("many-states", "rocksdb-incremental", "rocksdb", "checkpoint", 1, options=FILES + INCREMENTAL),
    Case("sinks", "hashmap-canonical", "hashmap", "canonical"),
    Case("inflight", "hashmap-checkpoint", "hashmap", "checkpoint", options=FILES + UNALIGNED),
    Case("tiny", "hashmap-canonical-32768", "hashmap", "canonical", 1, 32768, since=(2, 0)),
    Case("tiny", "rocksdb-canonical-32768", "rocksdb", "canonical", 1, 32768, until=(1, 20)),
    Case("tiny", "hashmap-jobmanager", "hashmap", "checkpoint", 1, options=JOBMANAGER_STORAGE),
    Case("tiny", "hashmap-filemerging", "hashmap", "checkpoint", options=FILES + FILE_MERGING),
    Case("operators", "hashmap-filemerging", "hashmap", "checkpoint", options=FILES + FILE_MERGING),
    Case("tiny", "rocksdb-filemerging", "rocksdb", "checkpoint", 1, options=FILES + FILE_MERGING + INCREMENTAL),
    Case("tiny", "hashmap-changelog", "hashmap", "checkpoint", 1, options=FILES + CHANGELOG),
    Case("tiny", "hashmap-changelog-memory", "hashmap", "checkpoint", 1, options=CHANGELOG + IN_MEMORY),
    Case("tiny", "rocksdb-changelog", "rocksdb", "checkpoint", 1, options=FILES + CHANGELOG + MATERIALIZED),
    Case("kitchen", "rocksdb-changelog", "rocksdb", "checkpoint", 1, options=FILES + CHANGELOG + MATERIALIZED),
    Case("windows", "hashmap-changelog", "hashmap", "checkpoint", 1, options=CHANGELOG + MATERIALIZED),
)
"""Cases with a job of their own, written by the newest releases."""

OLD_BACKENDS = (
    Case("tiny", "memory-checkpoint", "jobmanager", "checkpoint", 1),
    Case("tiny", "memory-savepoint", "jobmanager", "canonical", 1),
)
"""MemoryStateBackend, whose state is stored inline in the metadata."""
OLD_BACKENDS_IN = ("1.8", "1.12")


def cases(release: str) -> list[Case]:
    """The cases of `release`, the most used modes first."""
    modes = {mode.mode: mode for mode in MAIN + MORE}
    wanted = NEWEST if release in FULL else TURNING if release in TURNING_POINTS else BETWEEN
    rows = [replace(modes[mode], job=job, parallelism=parallelism) for job, mode, parallelism in wanted]
    rows += SPECIAL if release in FULL else OLD_BACKENDS if release in OLD_BACKENDS_IN else ()
    return [row for row in rows if row.since <= line_number(release) <= row.until]


__all__ = ["JOBS", "RELEASES", "Case", "cases"]
