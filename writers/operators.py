"""An operator that is made from DataFrames: its headers, its rows as entries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from stateproc.errors import InvalidOption, Where
from stateproc.keygroups.operator_ids import operator_id
from stateproc.releases import Release
from stateproc.serializers import LayoutContext
from stateproc.writers.bootstrap import KeyedRows, OperatorBootstrap, OperatorRows
from stateproc.writers.declarations import broadcast_info, keyed_part, list_info
from stateproc.writers.elements import POSITION, SUBTASK, ElementEncoder
from stateproc.writers.hashing import HASH_COLUMN, key_hash_of
from stateproc.writers.job import OperatorJob, OperatorPart, WriteJob
from stateproc.writers.rows import RowEncoder
from stateproc.writers.spark_entries import ENTRIES_SCHEMA, TargetOf, encoding, narrowed

_HASH = re.compile(r"[0-9a-fA-F]{32}")


class NewOperator:
    """An operator of the savepoint to be written, all of whose state comes from DataFrames."""

    def __init__(self, uid: str, state: OperatorBootstrap) -> None:
        self.uid = uid
        self.operator_id = self.id_of(uid)
        self._state = state

    @staticmethod
    def id_of(uid: str) -> str:
        """The operator id of a uid, or of a uid hash. Raises InvalidOption for an empty one."""
        if not uid:
            raise InvalidOption("an operator needs a uid", advice="the one given in the job with .uid('…')")
        return uid.lower() if _HASH.fullmatch(uid) else operator_id(uid)

    def job(self, release: Release, parallelism: int, max_parallelism: int) -> OperatorJob:
        """The operator without its rows. Raises InvalidOption."""
        state = self._state
        keyed = keyed_part(state.key_type, [rows.declared for rows in state.keyed], release) if state.keyed else None
        uid = None if _HASH.fullmatch(self.uid) else self.uid
        return OperatorJob(
            self.operator_id, uid, None, parallelism, max_parallelism, keyed, self._operator_part(release)
        )

    def _operator_part(self, release: Release) -> OperatorPart | None:
        if not self._state.operator:
            return None
        lists, broadcasts = self._split()
        return OperatorPart(
            tuple(list_info(rows.name, rows.value, rows.mode, release) for rows in lists),
            tuple(broadcast_info(rows.name, rows.key, rows.value, release) for rows in broadcasts if rows.key),
        )

    def _split(self) -> tuple[list[OperatorRows], list[OperatorRows]]:
        rows = self._state.operator
        return [it for it in rows if it.mode != "BROADCAST"], [it for it in rows if it.mode == "BROADCAST"]

    def entries(self, spark: SparkSession, job: WriteJob, index: int) -> Iterator[DataFrame]:
        """The operator's rows as TARGETED entries; ``index``: its place in the job. Raises InvalidOption."""
        mine = job.operators[index]
        context = LayoutContext(kryo=job.release.kryo, tail=True)
        if self._state.keyed:
            targets = TargetOf(job.targets, index, mine.parallelism, mine.max_parallelism)
            for state_id, rows in enumerate(self._state.keyed):
                yield self._keyed(rows, state_id, mine, targets, context)
        files = [n for n, target in enumerate(job.targets) if target.operator == index and target.key_groups is None]
        for state_id, elements in enumerate(item for part in self._split() for item in part):
            yield _operator_entries(elements, state_id, files, context, mine.display)

    def _keyed(
        self, rows: KeyedRows, state_id: int, mine: OperatorJob, targets: TargetOf, context: LayoutContext
    ) -> DataFrame:
        key = self._state.key_type
        hash_ = None if HASH_COLUMN in rows.columns else key_hash_of(key, self._state.hash)
        if hash_ is None and HASH_COLUMN not in rows.columns and key.type_name != "RowData":
            raise InvalidOption(
                f"nothing tells the hashCode of keys of the type {key.type_name}: it is the class's own",
                where=Where(operator=mine.display, state=rows.declared.name),
                advice="give it in a column of ints, hash_column='…', or hash='Objects.hash' if the class uses that",
            )
        state = rows.declared.state(key, state_id)
        encoder = RowEncoder(state, mine.max_parallelism, context, hash_, mine.display)
        chosen = rows.frame.select(*(F.col(f"`{column}`").alias(role) for role, column in rows.columns.items()))
        return chosen.mapInArrow(encoding(encoder, targets), ENTRIES_SCHEMA)


def _operator_entries(
    rows: OperatorRows, state_id: int, files: list[int], context: LayoutContext, operator: str
) -> DataFrame:
    """Elements (or broadcast entries, for every subtask) as TARGETED entries."""
    columns = [F.col(f"`{column}`").alias(role) for role, column in rows.columns.items()]
    frame = rows.frame.select(*columns, F.monotonically_increasing_id().alias(POSITION))
    if rows.mode == "BROADCAST":
        every = F.explode(F.array(*(F.lit(subtask) for subtask in range(len(files)))))
        frame = frame.select("*", every.alias(SUBTASK))
    elif SUBTASK not in rows.columns:
        frame = frame.withColumn(SUBTASK, F.col(POSITION) % F.lit(len(files)))
    encoder = ElementEncoder(rows.name, rows.value, rows.key, state_id, tuple(files), context, operator)

    def encode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from narrowed(encoder.encode(batch))

    return frame.mapInArrow(encode, ENTRIES_SCHEMA)
