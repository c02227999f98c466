"""Write a savepoint of one state with ``df.write.format("savepoint")``, whatever the partitions of the DataFrame.

Tasks write their rows as sorted runs, which the commit merges into state files. SavepointWriter is faster for large
state: it shuffles entries by file, and tasks write the files.

Save modes: ``append`` writes a new savepoint and refuses a directory that has one, because savepoints cannot be
extended; ``overwrite`` replaces it. Spark refuses its other modes, including the default, for data sources in Python.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType, YearMonthIntervalType

from stateproc.errors import InvalidOption, SnapshotError
from stateproc.flink_versions import DEFAULT, release
from stateproc.keygroups.key_group_assignment import HASH_COLUMN
from stateproc.options import STORAGE_PREFIX, storage_value
from stateproc.serializers import LayoutContext
from stateproc.serializers.runtime.ttl import LAST_ACCESS
from stateproc.spark.workers import keep_loaded
from stateproc.storage.store import StorePath
from stateproc.writers.bootstrap.keyed_encoder import MAP_KEY, MAP_VALUE, NAMESPACE, TIMESTAMP, VALUE
from stateproc.writers.bootstrap.new_operator import OPERATOR_ID, NewOperator
from stateproc.writers.bootstrap.operator_bootstrap import OperatorBootstrap
from stateproc.writers.bootstrap.operator_state_encoder import POSITION, SUBTASK
from stateproc.writers.bootstrap.state_registration import USER_TIMERS
from stateproc.writers.commit.commit import Commit
from stateproc.writers.formats.keyed_formats import OutputFormat
from stateproc.writers.formats.rocksdb.options import PREFIX, TableOptions, rocksdb_options
from stateproc.writers.sorting.external_sort import RUN_BYTES, StagedRun, staged_entries, written_runs
from stateproc.writers.write_snapshot import finish
from stateproc.writers.write_spec import WriteSpec, check_parallelism
from stateproc.writers.write_task import Source, write_state_files

# The options of ``df.write.format("savepoint")``: one state of one operator, from one DataFrame.


@dataclass(frozen=True)
class SinkOptions:
    """What to write, and how; see docs/writing.md."""

    path: str
    uid: str
    kind: str
    state: str = ""
    key_type: str | None = None
    value_type: str | None = None
    map_key_type: str | None = None
    namespace_type: str | None = None
    service: str = USER_TIMERS
    ttl: bool | None = None
    """None: if there is a column of last accesses."""
    hash: str | None = None
    max_parallelism: int = 128
    parallelism: int = 1
    version: str | None = None
    format: str = "canonical"
    compressed: bool = False
    verify: bool = True
    storage_options: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)
    rocksdb: TableOptions = field(default_factory=TableOptions)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def _uid_hash(text: str) -> str:
    if not OPERATOR_ID.fullmatch(text):
        raise ValueError("the 32 hex digits of an operator's id, or its uid as the option uid")
    return text


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 6:
        raise ValueError("a number")
    return int(text)


_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "path": ("path", str),
    "uid": ("uid", str),
    "uidHash": ("uid", _uid_hash),
    "state": ("state", str),
    "stateKind": ("kind", str),
    "keyType": ("key_type", str),
    "valueType": ("value_type", str),
    "mapKeyType": ("map_key_type", str),
    "namespaceType": ("namespace_type", str),
    "service": ("service", str),
    "ttl": ("ttl", _boolean),
    "hash": ("hash", str),
    "maxParallelism": ("max_parallelism", _number),
    "parallelism": ("parallelism", _number),
    "flinkVersion": ("version", str),
    "snapshotFormat": ("format", str),
    "compression": ("compressed", _boolean),
    "verify": ("verify", _boolean),
}
_BY_NAME = {name.lower(): (name, *rest) for name, rest in _OPTIONS.items()}


def sink_options(raw: Mapping[str, str]) -> SinkOptions:
    """The options as Spark gives them (keys in any case). Raises InvalidOption."""
    values: dict[str, Any] = {}
    storage: dict[str, Any] = {}
    rocksdb: dict[str, str] = {}
    for given, text in raw.items():
        key = given.lower()
        if key.startswith(STORAGE_PREFIX):
            storage[given[len(STORAGE_PREFIX) :]] = storage_value(text)
            continue
        if key.startswith(PREFIX):
            rocksdb[key] = text
            continue
        if key not in _BY_NAME:
            near = difflib.get_close_matches(key, _BY_NAME, n=1)
            hint = f"did you mean {_BY_NAME[near[0]][0]}?" if near else f"there are: {', '.join(_OPTIONS)}"
            raise InvalidOption(f"no option '{given}' for writing", advice=hint)
        name, attribute, read = _BY_NAME[key]
        if attribute in values:
            raise InvalidOption("uid and uidHash are both given", advice="one of them names the operator")
        try:
            values[attribute] = read(text)
        except SnapshotError:
            raise
        except ValueError as error:
            raise InvalidOption(f"option {name}={text!r}", advice=f"give {error}") from error
    for name, attribute in (("path", "path"), ("uid", "uid")):
        if not values.get(attribute):
            raise InvalidOption(f"no {name} given", advice='df.write.format("savepoint").option("uid", …).save(path)')
    values.setdefault("kind", "value")
    return SinkOptions(**values, storage_options=storage, rocksdb=rocksdb_options(rocksdb))


def bootstrap_of(options: SinkOptions, schema: StructType) -> OperatorBootstrap:
    """The operator with the one state that rows of ``schema`` hold. Raises InvalidOption, NotFound."""
    frame: Any = SimpleNamespace(schema=schema, columns=schema.names)
    has = set(schema.names).__contains__
    state = OperatorBootstrap(
        key_type=options.key_type, hash_column=HASH_COLUMN if has(HASH_COLUMN) else None, hash=options.hash
    )
    build = _KINDS.get(options.kind.lower())
    if build is None:
        raise InvalidOption(f"no stateKind is called '{options.kind}'", advice=f"there are {', '.join(_KINDS)}")
    if not options.state and not options.kind.lower().endswith("timers"):
        raise InvalidOption("no state given", advice="name it: .option('state', '…')")
    return build(state, frame, options, has)


def _spaced(options: SinkOptions, has: Callable[[str], bool]) -> dict[str, Any]:
    return {"namespace": NAMESPACE if has(NAMESPACE) else None, "namespace_type": options.namespace_type}


def _kept(options: SinkOptions, has: Callable[[str], bool]) -> dict[str, Any]:
    last_access = LAST_ACCESS if has(LAST_ACCESS) and options.ttl is not False else None
    return {"ttl": bool(options.ttl), "last_access": last_access, **_spaced(options, has)}


def _single(method: str) -> Callable[..., OperatorBootstrap]:
    def build(state: OperatorBootstrap, frame: Any, options: SinkOptions, has: Any) -> OperatorBootstrap:
        made: OperatorBootstrap = getattr(state, method)(
            options.state, frame, VALUE, type=options.value_type, **_kept(options, has)
        )
        return made

    return build


def _list(state: OperatorBootstrap, frame: Any, options: SinkOptions, has: Any) -> OperatorBootstrap:
    return state.list_state(options.state, frame, VALUE, element_type=options.value_type, **_kept(options, has))


def _map(state: OperatorBootstrap, frame: Any, options: SinkOptions, has: Any) -> OperatorBootstrap:
    flat: dict[str, Any] = {"map_key": MAP_KEY, "map_value": MAP_VALUE} if has(MAP_KEY) else {}
    return state.map_state(
        options.state,
        frame,
        VALUE,
        **flat,
        map_key_type=options.map_key_type,
        map_value_type=options.value_type,
        **_kept(options, has),
    )


def _timers(method: str) -> Callable[..., OperatorBootstrap]:
    def build(state: OperatorBootstrap, frame: Any, options: SinkOptions, has: Any) -> OperatorBootstrap:
        made: OperatorBootstrap = getattr(state, method)(
            frame, TIMESTAMP, service=options.service, **_spaced(options, has)
        )
        return made

    return build


def _elements(method: str) -> Callable[..., OperatorBootstrap]:
    def build(state: OperatorBootstrap, frame: Any, options: SinkOptions, has: Any) -> OperatorBootstrap:
        subtask = SUBTASK if has(SUBTASK) else None
        made: OperatorBootstrap = getattr(state, method)(
            options.state, frame, VALUE, type=options.value_type, subtask=subtask
        )
        return made

    return build


def _broadcast(state: OperatorBootstrap, frame: Any, options: SinkOptions, has: Any) -> OperatorBootstrap:
    return state.broadcast_state(
        options.state, frame, map_key_type=options.map_key_type, map_value_type=options.value_type
    )


_KINDS: dict[str, Callable[..., OperatorBootstrap]] = {
    "value": _single("value_state"),
    "reducing": _single("reducing_state"),
    "aggregating": _single("aggregating_state"),
    "list": _list,
    "map": _map,
    "event-timers": _timers("event_time_timers"),
    "processing-timers": _timers("processing_time_timers"),
    "operator-list": _elements("operator_list_state"),
    "union": _elements("union_list_state"),
    "broadcast": _broadcast,
}
"""The values of stateKind, and the method that adds a state of it."""


_ROWS_PER_PARTITION = 33
"""Bits of a row's number within its partition, as in Spark's monotonically_increasing_id."""


class RunsWritten(WriterCommitMessage):
    """The sorted runs of one task."""

    def __init__(self, runs: list[StagedRun]) -> None:
        self.runs = runs


class PlainWriter(DataSourceArrowWriter):
    """Writes one state from rows in any order; tasks hold ``run_bytes`` of entries at a time."""

    def __init__(self, spec: WriteSpec, commit: Commit, source: Source, run_bytes: int = RUN_BYTES) -> None:
        self._spec, self._commit, self._run_bytes = spec, commit, run_bytes
        self._columns, self._encoding = dict(source.columns), source.encoding
        self._keyed, self._broadcast = source.keyed, source.broadcast

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RunsWritten:
        entries = self._encoding(self._rows(iterator))
        runs = RunsWritten(list(written_runs(self._spec.staging, entries, self._run_bytes)))
        keep_loaded()
        return runs

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        runs = [run for message in messages if isinstance(message, RunsWritten) for run in message.runs]
        finish(self._spec, self._commit, write_state_files(self._spec, staged_entries(self._spec.staging, runs)))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._commit.abort()

    def _rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches' columns by their roles; elements of operator state get their position and subtask."""
        context = TaskContext.get()
        position = (context.partitionId() if context is not None else 0) << _ROWS_PER_PARTITION
        for batch in batches:
            columns = {role: batch.column(name) for role, name in self._columns.items()}
            if not self._keyed:
                columns = self._placed(columns, position, batch.num_rows)
                position += batch.num_rows
            yield pa.RecordBatch.from_pydict(columns)

    def _placed(self, columns: dict[str, pa.Array], position: int, n: int) -> dict[str, pa.Array]:
        parallelism = self._spec.operators[0].parallelism
        places = np.arange(position, position + n, dtype=np.int64)
        if self._broadcast:
            rows = pa.array(np.repeat(np.arange(n), parallelism))
            columns = {role: column.take(rows) for role, column in columns.items()}
            subtasks = pa.array(np.tile(np.arange(parallelism), n))
            return {**columns, POSITION: pa.array(np.repeat(places, parallelism)), SUBTASK: subtasks}
        if SUBTASK not in columns:
            columns = {**columns, SUBTASK: pa.array(places % parallelism)}
        return {**columns, POSITION: pa.array(places)}


def writer_of(raw: Mapping[str, str], schema: StructType, overwrite: bool) -> PlainWriter:
    """The writer of these options for rows of ``schema``; it has begun to write. Raises SnapshotError."""
    options = sink_options(raw)
    _check_handed_over(schema)
    operator = NewOperator(options.uid, bootstrap_of(options, schema))
    chosen = DEFAULT if options.version is None else release(options.version)
    check_parallelism(options.parallelism, options.max_parallelism, options.uid)
    operator_spec = operator.spec(chosen, options.parallelism, options.max_parallelism)
    format_ = OutputFormat.of(options.format)
    commit = Commit.begin(StorePath.of(options.path, options.storage_options), overwrite=overwrite)
    try:
        commit.staging.check_shared()
        spec = WriteSpec(
            commit.staging,
            chosen,
            (operator_spec,),
            format_,
            options.compressed,
            options.verify,
            context=LayoutContext(kryo=chosen.kryo),
            rocksdb=options.rocksdb,
        )
        (source,) = list(operator.sources(spec, 0))
        return PlainWriter(spec, commit, source)
    except BaseException:
        commit.abort()
        raise


def _check_handed_over(schema: StructType) -> None:
    """Raise InvalidOption for a column that Spark cannot pass to Python; it passes all columns, needed or not."""
    for column in schema.fields:
        if isinstance(column.dataType, YearMonthIntervalType):
            raise InvalidOption(
                f"column '{column.name}' is {column.dataType.simpleString()}, which Spark cannot hand to Python",
                advice=f"leave it out: df.drop('{column.name}'), or make a number of it: "
                f"extract(YEAR FROM {column.name}) * 12 + extract(MONTH FROM {column.name})",
            )
