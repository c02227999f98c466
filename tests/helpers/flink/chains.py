"""Chains: snapshots of one job after another, restored in between, as rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.helpers.flink.cases import (
    CHANGELOG,
    FILE_MERGING,
    FILES,
    HEAP_TIMERS,
    IN_MEMORY,
    INCREMENTAL,
    ROCKSDB_TIMERS,
    Case,
)
from tests.helpers.flink.jars import line_number

Options = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Stage:
    """A run of the job: its parallelism, what is done (see ChainRunner), options that differ from the case's."""

    parallelism: int
    steps: str
    options: Options = ()


@dataclass(frozen=True)
class Chain(Case):
    """A case of several snapshots; each stage is restored from the last snapshot of the one before.

    `time_to_live`: in milliseconds, of jobs whose states expire while they run. `key_type`: of keys that no file
    declares, in the words of `stateproc.types`.
    """

    stages: tuple[Stage, ...] = field(default=(), kw_only=True)
    time_to_live: int | None = field(default=None, kw_only=True)
    key_type: str | None = field(default=None, kw_only=True)
    releases: tuple[str, ...] = field(default=("1.20", "2.3"), kw_only=True)

    @property
    def name(self) -> str:
        """The folder of the case below its release."""
        return f"{self.job.partition('-')[0]}-{self.mode}"


def many(times: int) -> str:
    """So many rounds, each with its checkpoint."""
    return " ".join(["round checkpoint"] * times)


def steps(times: int) -> str:
    """So many steps of a job that logs its changes, each with its checkpoint."""
    return " ".join(["step checkpoint"] * times)


SMALL_TABLES: Options = (
    ("state.backend.rocksdb.block.blocksize", "256b"),
    ("state.backend.rocksdb.block.metadata-blocksize", "128b"),
    ("state.backend.rocksdb.compaction.level.target-file-size-base", "1kb"),
    ("state.backend.rocksdb.compaction.level.max-size-level-base", "2kb"),
    ("state.backend.rocksdb.log.level", "FATAL_LEVEL"),
)
"""So little state has several blocks, files and levels."""
UNMANAGED: Options = (("state.backend.rocksdb.memory.managed", "false"),)
PARTITIONED: Options = (
    ("state.backend.rocksdb.memory.managed", "true"),
    ("state.backend.rocksdb.memory.partitioned-index-filters", "true"),
    ("state.backend.rocksdb.use-bloom-filter", "true"),
)
COMPRESSED: Options = (
    ("state.backend.rocksdb.compression.per.level", "NO_COMPRESSION;LZ4_COMPRESSION;ZSTD_COMPRESSION;ZLIB_COMPRESSION"),
)
CLAIM: Options = (
    ("execution.savepoint-restore-mode", "CLAIM"),
    ("execution.state-recovery.claim-mode", "CLAIM"),
)
INGEST: Options = (("state.backend.rocksdb.use-ingest-db-restore-mode", "true"),)
"""Databases are clipped and imported as a whole; Flink 1.20 knows the option without doing so."""
DELETE_FILES: Options = (("state.backend.rocksdb.rescaling.use-delete-files-in-range", "true"),)
FORST: Options = (
    *FILES,
    *INCREMENTAL,
    ("state.backend.forst.block.blocksize", "256b"),
    ("state.backend.forst.compaction.level.target-file-size-base", "1kb"),
    ("state.backend.forst.compaction.level.max-size-level-base", "2kb"),
)
LOCAL: Options = (("state.backend.forst.primary-dir", "local"),)
NO_CLAIM: Options = (
    ("execution.savepoint-restore-mode", "NO_CLAIM"),
    ("execution.state-recovery.claim-mode", "NO_CLAIM"),
)
ROCKSDB = FILES + INCREMENTAL + ROCKSDB_TIMERS + SMALL_TABLES

ACROSS: Options = (("execution.checkpointing.file-merging.across-checkpoint-boundary", "true"),)
SLOWLY: Options = (
    ("state.changelog.periodic-materialize.interval", "3s"),
    ("state.backend.changelog.periodic-materialize.interval", "3s"),
)
RARELY: Options = (
    ("state.changelog.periodic-materialize.interval", "15s"),
    ("state.backend.changelog.periodic-materialize.interval", "15s"),
)
"""Each subtask has its own first time to materialize, within the interval."""
NEVER: Options = (
    ("state.changelog.periodic-materialize.enabled", "false"),
    ("state.backend.changelog.periodic-materialize.enabled", "false"),
)
HARDLY: Options = (("state.backend.changelog.periodic-materialize.interval", "10h"),)
"""Flink 1.15 has no option to turn it off."""
MATERIALIZING = many(2) + " pause-4000 " + many(3) + " pause-4000 checkpoint " + many(1)
"""Nothing is materialized yet, then a part is, then all."""

UP_AND_DOWN = (Stage(2, many(3)), Stage(3, "checkpoint " + many(2)), Stage(1, many(3)))

LOGGED = (
    Stage(2, steps(6), NO_CLAIM),
    Stage(2, steps(5), NO_CLAIM),
    Stage(3, steps(5) + " canonical", CLAIM),
    Stage(1, steps(4), NO_CLAIM),
    Stage(1, steps(4) + " native canonical", CLAIM),
)
"""Restored with a claim and without, rescaled from a checkpoint and from a savepoint."""
LOGGED_TABLES: Options = (
    ("state.backend.rocksdb.block.blocksize", "512b"),
    ("state.backend.rocksdb.compaction.level.target-file-size-base", "8kb"),
    ("state.backend.rocksdb.compaction.level.max-size-level-base", "16kb"),
    ("state.backend.rocksdb.compression.per.level", "NO_COMPRESSION"),
    ("state.backend.rocksdb.log.level", "FATAL_LEVEL"),
)
"""Tables of several blocks, and levels of several tables; not compressed, because the archive is."""

FIVE_HOURS = 5 * 3_600_000
"""By the clock of the job, which it moves on itself."""

OLD = ("1.8", "1.13", "1.16")
"""Of the oldest release, of the last before canonical savepoints, and of one with newer handles."""


def _chain(job: str, mode: str, options: Options, *stages: Stage, backend: str = "rocksdb", **more: Any) -> Chain:
    return Chain(job, mode, backend, "chain", options=options, stages=stages, **more)


CHAINS = (
    _chain("chain", "rocksdb", ROCKSDB, Stage(1, many(5) + " canonical"), releases=OLD),
    _chain(
        "chain-small",
        "rescaled",
        ROCKSDB + UNMANAGED,
        Stage(2, many(2)),
        Stage(3, "checkpoint " + many(1)),
        Stage(1, many(1)),
        releases=OLD,
    ),
    _chain("chain", "rocksdb", ROCKSDB, Stage(1, many(7) + " canonical native")),
    _chain("chain-small", "rescaled", ROCKSDB + UNMANAGED, *UP_AND_DOWN),
    _chain("chain-small", "rescaled-ingest", ROCKSDB + UNMANAGED + CLAIM + INGEST, *UP_AND_DOWN, releases=("2.3",)),
    _chain(
        "chain-small",
        "rescaled-delete-files",
        ROCKSDB + UNMANAGED + CLAIM + DELETE_FILES,
        *UP_AND_DOWN,
        max_parallelism=1000,
    ),
    _chain("chain-small", "claimed", ROCKSDB + UNMANAGED + CLAIM, Stage(1, many(3)), Stage(1, many(3))),
    _chain("chain-small", "inline", INCREMENTAL + ROCKSDB_TIMERS + SMALL_TABLES + UNMANAGED, Stage(1, many(6))),
    _chain(
        "chain-expiring",
        "expiring",
        ROCKSDB + UNMANAGED,
        Stage(1, many(2) + " pause-9000 " + many(5) + " canonical native round"),
        time_to_live=8000,
    ),
    _chain("chain-small", "partitioned", ROCKSDB + PARTITIONED, Stage(1, many(6))),
    _chain("chain-small", "compressed", ROCKSDB + COMPRESSED, Stage(1, many(8))),
    _chain(
        "chain-small",
        "heaptimers",
        FILES + INCREMENTAL + HEAP_TIMERS + SMALL_TABLES,
        Stage(2, many(5)),
        Stage(1, many(1) + " canonical"),
    ),
    _chain("chain-small", "filemerging", ROCKSDB + FILE_MERGING + ACROSS + CLAIM, Stage(2, many(5)), Stage(1, many(2))),
    _chain(
        "chain-small",
        "changelog-never",
        ROCKSDB + CHANGELOG + NEVER,
        Stage(1, many(5)),
        releases=("1.16", "1.17", "1.20", "2.3"),
    ),
    _chain("chain-small", "changelog-never", ROCKSDB + CHANGELOG + HARDLY, Stage(1, many(5)), releases=("1.15",)),
    _chain("chain-untimed", "changelog-untold", ROCKSDB + CHANGELOG + NEVER, Stage(2, many(5)), key_type="String"),
    _chain(
        "chain-small",
        "changelog",
        ROCKSDB + CHANGELOG + SLOWLY,
        Stage(1, MATERIALIZING),
        releases=("1.15", "1.16", "1.17", "1.18", "1.19", "1.20", "2.3"),
    ),
    _chain(
        "chain-small",
        "changelog-memory",
        ROCKSDB + CHANGELOG + IN_MEMORY + SLOWLY,
        Stage(1, MATERIALIZING),
        releases=("1.16", "1.17"),
    ),
    _chain("chain-sessions", "changelog-sessions", ROCKSDB + CHANGELOG + NEVER, Stage(2, many(6))),
    _chain(
        "chain-sessions",
        "changelog-sessions-heap",
        FILES + CHANGELOG + SLOWLY,
        Stage(1, MATERIALIZING),
        backend="hashmap",
    ),
    _chain(
        "chain", "changelog-heap", FILES + CHANGELOG + SLOWLY, Stage(1, MATERIALIZING + " canonical"), backend="hashmap"
    ),
    _chain(
        "chain-small",
        "changelog-rescaled",
        ROCKSDB + CHANGELOG + SLOWLY + CLAIM,
        Stage(2, MATERIALIZING),
        Stage(3, "checkpoint " + many(2)),
        Stage(1, many(2)),
    ),
    _chain(
        "chain-small",
        "changelog-rescaled",
        ROCKSDB + CHANGELOG + SLOWLY + CLAIM,
        Stage(2, many(1) + " round pause-4000 " + many(1) + " pause-4000 checkpoint " + many(1)),
        Stage(3, "checkpoint " + many(1)),
        Stage(1, many(1)),
        releases=("1.15", "1.16", "1.17"),
    ),
    _chain(
        "chain-untimed",
        "changelog-by-and-by",
        ROCKSDB + CHANGELOG + RARELY,
        Stage(4, "round pause-6000 " + many(3) + " pause-5000 " + many(1) + " pause-5000 " + many(1)),
    ),
    _chain(
        "chain-small",
        "changelog-switched",
        ROCKSDB + CLAIM,
        Stage(1, many(2)),
        Stage(1, many(3), CHANGELOG + SLOWLY),
        Stage(1, many(2)),
        releases=("1.16", "1.17", "1.20", "2.3"),
    ),
    _chain(
        "chain-small",
        "changelog-switched",
        ROCKSDB + CLAIM,
        Stage(1, many(2) + " canonical"),
        Stage(1, "round pause-4000 checkpoint " + many(2) + " canonical", CHANGELOG + SLOWLY),
        Stage(1, many(2)),
        releases=("1.15",),
    ),
    _chain("chain-async", "forst", FORST + CLAIM, *UP_AND_DOWN, backend="forst", releases=("2.3",)),
    _chain("chain-async", "forst-local", FORST + LOCAL, *UP_AND_DOWN, backend="forst", releases=("2.3",)),
    _chain(
        "feed",
        "rocksdb",
        FILES + INCREMENTAL + ROCKSDB_TIMERS + LOGGED_TABLES + UNMANAGED,
        *LOGGED,
        time_to_live=FIVE_HOURS,
    ),
    _chain("feed", "hashmap", FILES, *LOGGED, backend="hashmap", time_to_live=FIVE_HOURS),
    _chain(
        "feed",
        "changelog",
        FILES + INCREMENTAL + ROCKSDB_TIMERS + LOGGED_TABLES + UNMANAGED + CHANGELOG + SLOWLY,
        Stage(2, steps(3) + " pause-4000 " + steps(3), CLAIM),
        Stage(2, steps(2) + " pause-4000 " + steps(3), CLAIM),
        Stage(3, steps(5) + " pause-4000 checkpoint", CLAIM),
        Stage(1, steps(2) + " pause-4000 " + steps(2), CLAIM),
        Stage(1, steps(4) + " native canonical", CLAIM),
        time_to_live=FIVE_HOURS,
        key_type="Long",
    ),
    _chain("chain-small", "forst-synchronous", FORST, Stage(1, many(5)), backend="forst", releases=("2.3",)),
    _chain("chain-async", "async-rocksdb", ROCKSDB + UNMANAGED, Stage(1, many(5) + " native"), releases=("2.3",)),
)


def chains(release: str) -> list[Chain]:
    """The chains that `release` writes."""
    found = [chain for chain in CHAINS if release in chain.releases]
    return [chain for chain in found if chain.since <= line_number(release) <= chain.until]
