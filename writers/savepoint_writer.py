"""SavepointWriter: new savepoints from DataFrames, and existing snapshots rewritten."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pyspark.sql import SparkSession

from stateproc.errors import InvalidOption
from stateproc.keygroups.ranges import check_max_parallelism
from stateproc.releases import DEFAULT, Release, release
from stateproc.writers.bootstrap import OperatorBootstrap
from stateproc.writers.commit import Commit
from stateproc.writers.job import Format, WriteJob
from stateproc.writers.operators import NewOperator
from stateproc.writers.spark_entries import entries_of, put_together
from stateproc.writers.spark_sink import save


class SavepointWriter:
    """Builds a savepoint, operator by operator, and writes it; see docs/writing.md.

    Methods return the writer itself, so that they can be chained. Nothing is written before ``write``.
    """

    def __init__(self, spark: SparkSession, max_parallelism: int) -> None:
        check_max_parallelism(max_parallelism)
        self._spark = spark
        self._max_parallelism = max_parallelism
        self._parallelism: dict[str, int] = {}
        self._operators: dict[str, NewOperator] = {}
        self._release: Release = DEFAULT
        self._format = Format.CANONICAL
        self._compressed = False
        self._storage_options: dict[str, Any] = {}

    @classmethod
    def new_savepoint(cls, spark: SparkSession, max_parallelism: int = 128) -> SavepointWriter:
        """A savepoint without operators. Raises InvalidOption for a max parallelism that Flink cannot have."""
        return cls(spark, max_parallelism)

    def with_operator(self, uid: str, state: OperatorBootstrap) -> SavepointWriter:
        """Add an operator; an operator of that uid that is there already is replaced. ``uid``: as in the job, or its
        hash (32 hex digits)."""
        operator = NewOperator(uid, state)
        self._operators[operator.operator_id] = operator
        return self

    def with_max_parallelism(self, max_parallelism: int) -> SavepointWriter:
        """The number of key groups, for all operators. Raises InvalidOption."""
        check_max_parallelism(max_parallelism)
        self._max_parallelism = max_parallelism
        return self

    def with_parallelism(self, uid: str, parallelism: int) -> SavepointWriter:
        """How many subtasks an operator has in the savepoint, and so how many files; Flink rescales at will."""
        self._parallelism[NewOperator.id_of(uid)] = parallelism
        return self

    def with_compression(self, compressed: bool = True) -> SavepointWriter:
        """Compress keyed state (snappy), and operator state for Flink 1.18 and newer."""
        self._compressed = compressed
        return self

    def with_format(self, name: Literal["canonical", "native-hashmap", "native-rocksdb"]) -> SavepointWriter:
        """The format of keyed state. ``canonical`` restores under every state backend, the others under their own."""
        self._format = self.format_of(name)
        return self

    @staticmethod
    def format_of(name: str) -> Format:
        """The format of a name. Raises InvalidOption."""
        known = {item.value: item for item in Format}
        if name not in known:
            raise InvalidOption(f"no format is called {name!r}", advice=f"there are {', '.join(known)}")
        return known[name]

    def with_flink_version(self, version: str) -> SavepointWriter:
        """The Flink release that will restore it, 1.13 to 2.3: it chooses the metadata version and how serializers are
        told. Default 1.20."""
        self._release = release(version)
        return self

    def with_storage_options(self, options: Mapping[str, Any]) -> SavepointWriter:
        """Options of the target's file system (fsspec)."""
        self._storage_options = dict(options)
        return self

    def write(
        self, path: str | os.PathLike[str], mode: Literal["error", "overwrite"] = "error", *, verify: bool = True
    ) -> str:
        """Write the savepoint to the directory ``path``, which is returned. It can be loaded from the moment that
        everything is there; a write that fails leaves nothing.

        mode: 'overwrite' replaces a snapshot that is there once the new one is complete. verify: every file is read
        back and counted. Raises InvalidOption, InvalidRows, DuplicateKey, WriteFailed; those of Spark's tasks come
        wrapped in Spark's own exceptions, with the same text.
        """
        if mode not in ("error", "overwrite"):
            raise InvalidOption(f"mode {mode!r}", advice="give 'error' or 'overwrite'")
        operators = self._ordered()
        parallelisms = {operator.operator_id: self._parallelism_of(operator) for operator in operators}
        commit = Commit.begin(path, overwrite=mode == "overwrite", storage_options=self._storage_options)
        try:
            jobs = tuple(
                operator.job(self._release, parallelisms[operator.operator_id], self._max_parallelism)
                for operator in operators
            )
            job = WriteJob(commit.staging, self._release, jobs, self._format, self._compressed, verify)
            frames = [
                entries_of(source, jobs[index].parallelism)
                for index, operator in enumerate(operators)
                for source in operator.sources(job, index)
            ]
            save(put_together(frames, len(job.targets)), job, commit)
        except BaseException:
            commit.abort()
            raise
        return os.fspath(path)

    def _ordered(self) -> Sequence[NewOperator]:
        if not self._operators:
            raise InvalidOption("the savepoint has no operators", advice="add one: writer.with_operator(uid, …)")
        unknown = self._parallelism.keys() - self._operators.keys()
        if unknown:
            raise InvalidOption(f"with_parallelism names an operator that is not there: {min(unknown)}")
        return list(self._operators.values())

    def _parallelism_of(self, operator: NewOperator) -> int:
        given = self._parallelism.get(operator.operator_id)
        if given is None:
            return max(1, min(self._max_parallelism, int(self._spark.sparkContext.defaultParallelism)))
        if not 0 < given <= self._max_parallelism:
            raise InvalidOption(
                f"parallelism {given} of operator {operator.uid}",
                advice=f"give one from 1 to {self._max_parallelism}, the max parallelism",
            )
        return given
