"""Chains: snapshots of one job after another, restored in between, as rows."""

from __future__ import annotations

from dataclasses import dataclass, field

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

CHAINS = (
    Chain(
        "chain",
        "rocksdb",
        "rocksdb",
        "chain",
        options=ROCKSDB,
        stages=(Stage(1, many(5) + " canonical"),),
        releases=OLD,
    ),
    Chain(
        "chain-small",
        "rescaled",
        "rocksdb",
        "chain",
        options=ROCKSDB + UNMANAGED,
        stages=(Stage(2, many(2)), Stage(3, "checkpoint " + many(1)), Stage(1, many(1))),
        releases=OLD,
    ),
    Chain("chain", "rocksdb", "rocksdb", "chain", options=ROCKSDB, stages=(Stage(1, many(7) + " canonical native"),)),
    Chain("chain-small", "rescaled", "rocksdb", "chain", options=ROCKSDB + UNMANAGED, stages=UP_AND_DOWN),
    Chain(
        "chain-small",
        "rescaled-ingest",
        "rocksdb",
        "chain",
        options=ROCKSDB + UNMANAGED + CLAIM + INGEST,
        releases=("2.3",),
        stages=UP_AND_DOWN,
    ),
    Chain(
        "chain-small",
        "rescaled-delete-files",
        "rocksdb",
        "chain",
        max_parallelism=1000,
        options=ROCKSDB + UNMANAGED + CLAIM + DELETE_FILES,
        stages=UP_AND_DOWN,
    ),
    Chain(
        "chain-small",
        "claimed",
        "rocksdb",
        "chain",
        options=ROCKSDB + UNMANAGED + CLAIM,
        stages=(Stage(1, many(3)), Stage(1, many(3))),
    ),
    Chain(
        "chain-small",
        "inline",
        "rocksdb",
        "chain",
        options=INCREMENTAL + ROCKSDB_TIMERS + SMALL_TABLES + UNMANAGED,
        stages=(Stage(1, many(6)),),
    ),
    Chain(
        "chain-expiring",
        "expiring",
        "rocksdb",
        "chain",
        options=ROCKSDB + UNMANAGED,
        stages=(Stage(1, many(2) + " pause-9000 " + many(5) + " canonical native round"),),
        time_to_live=8000,
    ),
    Chain("chain-small", "partitioned", "rocksdb", "chain", options=ROCKSDB + PARTITIONED, stages=(Stage(1, many(6)),)),
    Chain("chain-small", "compressed", "rocksdb", "chain", options=ROCKSDB + COMPRESSED, stages=(Stage(1, many(8)),)),
    Chain(
        "chain-small",
        "heaptimers",
        "rocksdb",
        "chain",
        options=FILES + INCREMENTAL + HEAP_TIMERS + SMALL_TABLES,
        stages=(Stage(2, many(5)), Stage(1, many(1) + " canonical")),
    ),
    Chain(
        "chain-small",
        "filemerging",
        "rocksdb",
        "chain",
        options=ROCKSDB + FILE_MERGING + ACROSS + CLAIM,
        stages=(Stage(2, many(5)), Stage(1, many(2))),
    ),
    Chain(
        "chain-small",
        "changelog-never",
        "rocksdb",
        "chain",
        options=ROCKSDB + CHANGELOG + NEVER,
        stages=(Stage(1, many(5)),),
        releases=("1.16", "1.17", "1.20", "2.3"),
    ),
    Chain(
        "chain-small",
        "changelog-never",
        "rocksdb",
        "chain",
        options=ROCKSDB + CHANGELOG + HARDLY,
        stages=(Stage(1, many(5)),),
        releases=("1.15",),
    ),
    Chain(
        "chain-untimed",
        "changelog-untold",
        "rocksdb",
        "chain",
        options=ROCKSDB + CHANGELOG + NEVER,
        stages=(Stage(2, many(5)),),
        key_type="String",
    ),
    Chain(
        "chain-small",
        "changelog",
        "rocksdb",
        "chain",
        options=ROCKSDB + CHANGELOG + SLOWLY,
        stages=(Stage(1, MATERIALIZING),),
        releases=("1.15", "1.16", "1.17", "1.18", "1.19", "1.20", "2.3"),
    ),
    Chain(
        "chain-small",
        "changelog-memory",
        "rocksdb",
        "chain",
        options=ROCKSDB + CHANGELOG + IN_MEMORY + SLOWLY,
        stages=(Stage(1, MATERIALIZING),),
        releases=("1.16", "1.17"),
    ),
    Chain(
        "chain-sessions",
        "changelog-sessions",
        "rocksdb",
        "chain",
        options=ROCKSDB + CHANGELOG + NEVER,
        stages=(Stage(2, many(6)),),
    ),
    Chain(
        "chain-sessions",
        "changelog-sessions-heap",
        "hashmap",
        "chain",
        options=FILES + CHANGELOG + SLOWLY,
        stages=(Stage(1, MATERIALIZING),),
    ),
    Chain(
        "chain",
        "changelog-heap",
        "hashmap",
        "chain",
        options=FILES + CHANGELOG + SLOWLY,
        stages=(Stage(1, MATERIALIZING + " canonical"),),
    ),
    Chain(
        "chain-small",
        "changelog-rescaled",
        "rocksdb",
        "chain",
        options=ROCKSDB + CHANGELOG + SLOWLY + CLAIM,
        stages=(Stage(2, MATERIALIZING), Stage(3, "checkpoint " + many(2)), Stage(1, many(2))),
    ),
    Chain(
        "chain-small",
        "changelog-rescaled",
        "rocksdb",
        "chain",
        options=ROCKSDB + CHANGELOG + SLOWLY + CLAIM,
        stages=(
            Stage(2, many(1) + " round pause-4000 " + many(1) + " pause-4000 checkpoint " + many(1)),
            Stage(3, "checkpoint " + many(1)),
            Stage(1, many(1)),
        ),
        releases=("1.15", "1.16", "1.17"),
    ),
    Chain(
        "chain-untimed",
        "changelog-by-and-by",
        "rocksdb",
        "chain",
        options=ROCKSDB + CHANGELOG + RARELY,
        stages=(Stage(4, "round pause-6000 " + many(3) + " pause-5000 " + many(1) + " pause-5000 " + many(1)),),
    ),
    Chain(
        "chain-small",
        "changelog-switched",
        "rocksdb",
        "chain",
        options=ROCKSDB + CLAIM,
        stages=(Stage(1, many(2)), Stage(1, many(3), CHANGELOG + SLOWLY), Stage(1, many(2))),
        releases=("1.16", "1.17", "1.20", "2.3"),
    ),
    Chain(
        "chain-small",
        "changelog-switched",
        "rocksdb",
        "chain",
        options=ROCKSDB + CLAIM,
        stages=(
            Stage(1, many(2) + " canonical"),
            Stage(1, "round pause-4000 checkpoint " + many(2) + " canonical", CHANGELOG + SLOWLY),
            Stage(1, many(2)),
        ),
        releases=("1.15",),
    ),
    Chain(
        "chain-async",
        "forst",
        "forst",
        "chain",
        options=FORST + CLAIM,
        stages=UP_AND_DOWN,
        releases=("2.3",),
    ),
    Chain(
        "chain-async",
        "forst-local",
        "forst",
        "chain",
        options=FORST + LOCAL,
        stages=UP_AND_DOWN,
        releases=("2.3",),
    ),
    Chain(
        "feed",
        "rocksdb",
        "rocksdb",
        "chain",
        options=FILES + INCREMENTAL + ROCKSDB_TIMERS + LOGGED_TABLES + UNMANAGED,
        stages=LOGGED,
        time_to_live=FIVE_HOURS,
    ),
    Chain("feed", "hashmap", "hashmap", "chain", options=FILES, stages=LOGGED, time_to_live=FIVE_HOURS),
    Chain(
        "feed",
        "changelog",
        "rocksdb",
        "chain",
        options=FILES + INCREMENTAL + ROCKSDB_TIMERS + LOGGED_TABLES + UNMANAGED + CHANGELOG + SLOWLY,
        stages=(
            Stage(2, steps(3) + " pause-4000 " + steps(3), CLAIM),
            Stage(2, steps(2) + " pause-4000 " + steps(3), CLAIM),
            Stage(3, steps(5) + " pause-4000 checkpoint", CLAIM),
            Stage(1, steps(2) + " pause-4000 " + steps(2), CLAIM),
            Stage(1, steps(4) + " native canonical", CLAIM),
        ),
        time_to_live=FIVE_HOURS,
        key_type="Long",
    ),
    Chain(
        "chain-small",
        "forst-synchronous",
        "forst",
        "chain",
        options=FORST,
        stages=(Stage(1, many(5)),),
        releases=("2.3",),
    ),
    Chain(
        "chain-async",
        "async-rocksdb",
        "rocksdb",
        "chain",
        options=ROCKSDB + UNMANAGED,
        stages=(Stage(1, many(5) + " native"),),
        releases=("2.3",),
    ),
)


def chains(release: str) -> list[Chain]:
    """The chains that `release` writes."""
    found = [chain for chain in CHAINS if release in chain.releases]
    return [chain for chain in found if chain.since <= line_number(release) <= chain.until]
