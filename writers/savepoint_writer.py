"""SavepointWriter: new savepoints from DataFrames, and existing snapshots rewritten."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession

from stateproc.errors import InvalidOption, not_found
from stateproc.flink_versions import DEFAULT, Release, release
from stateproc.keygroups.ranges import check_max_parallelism
from stateproc.options import open_arguments, parse_options
from stateproc.snapshot.snapshot import Snapshot, open
from stateproc.spark.workers import check_worker_python
from stateproc.storage.filesystem import absolute
from stateproc.writers.bootstrap.new_operator import NewOperator
from stateproc.writers.bootstrap.operator_bootstrap import OperatorBootstrap
from stateproc.writers.bootstrap.validation import Type, check_name
from stateproc.writers.formats.keyed_formats import OutputFormat
from stateproc.writers.formats.rocksdb.options import OptionsFactory, rocksdb_options
from stateproc.writers.rewrite.edits import TtlEdit, now_ms
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.rewrite.rekey import HashCodes
from stateproc.writers.rewrite.transform import transformation
from stateproc.writers.spark.execution import WriteSettings, write_snapshot

AnyOperator = NewOperator | ExistingOperator


class SavepointWriter:
    """Builds a savepoint, operator by operator, and writes it; see docs/writing.md.

    Operators are named by uid, or by uid hash (32 hex digits). Methods return the writer itself, so that they can be
    chained; they raise NotFound and InvalidOption. Nothing is written before ``write``.
    """

    def __init__(self, spark: SparkSession, settings: WriteSettings, source: Snapshot | None = None) -> None:
        self._spark, self._settings, self._source = spark, settings, source
        self._parallelism: dict[str, int] = {}
        self._operators: dict[str, AnyOperator] = {}
        self._read_options: dict[str, str] = {}

    @classmethod
    def new_savepoint(cls, spark: SparkSession, max_parallelism: int = 128) -> SavepointWriter:
        """A savepoint without operators. Raises InvalidOption for a max parallelism that Flink cannot have."""
        check_max_parallelism(max_parallelism)
        return cls(spark, WriteSettings(DEFAULT, max_parallelism))

    @classmethod
    def from_existing_savepoint(
        cls, spark: SparkSession, path: str | os.PathLike[str], options: Mapping[str, Any] | None = None
    ) -> SavepointWriter:
        """A savepoint that begins as a copy of a snapshot: savepoint or checkpoint of any format and state backend.

        options: those of ``spark.read.format("savepoint")`` that say how to read (classes, uids, pathMapping, fs.…),
        as text, or as the lists, dicts, booleans and numbers that the text stands for.
        What is not named later is carried over bit for bit. Raises SnapshotError.
        """
        read_options = {name: _text(value) for name, value in (options or {}).items()} | {"path": absolute(_path(path))}
        source = open(read_options["path"], **open_arguments(parse_options(read_options)))
        writer = cls(spark, WriteSettings(_release_of(source), None), source)
        writer._read_options = read_options
        for operator in source.operators:
            writer._operators[operator.operator_id] = ExistingOperator(operator)
        return writer

    # --- operators -------------------------------------------------------------------------------------------

    def with_operator(self, uid: str, state: OperatorBootstrap) -> SavepointWriter:
        """Add an operator; an operator of that uid that is there already is replaced as a whole."""
        if not isinstance(state, OperatorBootstrap):
            raise InvalidOption(
                f"the state of operator {uid!r} is a {type(state).__name__}",
                advice="tell it in an OperatorBootstrap: OperatorBootstrap().value_state('name', frame)",
            )
        check_name(uid, "an operator")
        operator = NewOperator(uid, state)
        self._operators[operator.operator_id] = operator
        return self

    def remove_operator(self, uid: str) -> SavepointWriter:
        """Leave an operator and all its state out."""
        del self._operators[self._found(uid)]
        return self

    def change_operator_identifier(self, old: str, new: str) -> SavepointWriter:
        """Give an operator another uid: what the job calls it now."""
        found, wanted = self._found(old), NewOperator.id_of(new)
        if wanted != found and wanted in self._operators:
            raise InvalidOption(f"there is an operator {new!r} already", advice="remove it first: remove_operator(…)")
        operator = self._operators.pop(found)
        operator.operator_id = wanted
        operator.uid = None if new.lower() == wanted else new
        self._operators[wanted] = operator
        if found in self._parallelism:
            self._parallelism[wanted] = self._parallelism.pop(found)
        return self

    # --- states of existing operators ------------------------------------------------------------------------

    def with_states(self, uid: str, add: Callable[[OperatorBootstrap], object]) -> SavepointWriter:
        """Put keyed states into an existing operator, beside the others or in the place of those of their names.

        ``add`` gets a bootstrap with the operator's key type: ``lambda op: op.value_state("name", frame)``.
        """
        self._existing(uid).edits.states.append(add)
        return self

    def transform_state(
        self, uid: str, state: str, function: Callable[[DataFrame], DataFrame], *, value_type: Type = None,
        map_key_type: Type = None,
    ) -> SavepointWriter:  # fmt: skip
        """Map a state's rows, as ``spark.read`` gives them, through a function; types of columns that stay what they
        are stay those of Flink, others are the columns' defaults or as given (of list elements, map values, values)."""
        operator = self._existing(uid)
        operator.check_state(state)
        options = {**self._read_options, "uidHash": operator.operator.operator_id, "state": state}
        frame = self._spark.read.format("savepoint").options(**options).load()
        keyed = operator.header.keyed(state)
        operator.edits.states.append(transformation(keyed, frame, function, value_type, map_key_type))
        return self

    def drop_state(self, uid: str, state: str) -> SavepointWriter:
        """Leave a keyed state out (timers too, by the name of their queue)."""
        operator = self._existing(uid)
        operator.check_state(state)
        operator.edits.dropped.add(state)
        return self

    def rename_state(self, uid: str, old: str, new: str) -> SavepointWriter:
        """Give a keyed state another name."""
        operator = self._existing(uid)
        operator.check_state(old)
        operator.edits.renamed[old] = new
        return self

    def enable_ttl(self, uid: str, state: str, last_access: int | None = None) -> SavepointWriter:
        """Give a state a time to live, which Flink itself refuses: entries count as used at ``last_access`` (ms since
        the epoch, default now). How long they live is up to the job."""
        edit = TtlEdit("on", last_access=_milliseconds(last_access, "the last access"))
        return self._edit_ttl(uid, state, edit)

    def disable_ttl(self, uid: str, state: str) -> SavepointWriter:
        """Take a state's time to live away; entries that have expired come back to life (purge them before)."""
        return self._edit_ttl(uid, state, TtlEdit("off"))

    def purge_expired(self, uid: str, state: str, ttl: timedelta, now: int | None = None) -> SavepointWriter:
        """Drop entries that were last used ``ttl`` before ``now`` (ms since the epoch, default now) or earlier."""
        if not isinstance(ttl, timedelta):
            raise InvalidOption(f"a time to live of {ttl!r}", advice="give a timedelta: timedelta(days=7)")
        edit = TtlEdit("purge", ttl=ttl // timedelta(milliseconds=1), now=_milliseconds(now, "now"))
        return self._edit_ttl(uid, state, edit)

    def with_hash_function(self, uid: str, hash_function: str | HashCodes) -> SavepointWriter:
        """How keys are hashed whose hashCode is their class's own (POJOs, case classes), for rows and for another max
        parallelism: 'Objects.hash', or a function of the keys (an Arrow array) that returns their hash codes."""
        self._existing(uid).edits.hash_function = hash_function
        return self

    def drop_in_flight_data(self) -> SavepointWriter:
        """Leave the records in flight of an unaligned checkpoint out. They are lost."""
        self._settings.drop_in_flight = True
        return self

    # --- the savepoint ---------------------------------------------------------------------------------------

    def with_max_parallelism(self, max_parallelism: int) -> SavepointWriter:
        """The number of key groups, for all operators; keys of existing ones are hashed anew."""
        check_max_parallelism(max_parallelism)
        self._settings.max_parallelism = max_parallelism
        return self

    def with_parallelism(self, uid: str, parallelism: int) -> SavepointWriter:
        """How many subtasks an operator has in the savepoint, and so how many files; Flink rescales at will."""
        self._parallelism[self._found(uid)] = parallelism
        return self

    def with_compression(self, compressed: bool = True) -> SavepointWriter:
        """Compress keyed state (snappy), and new operator state for Flink 1.18 and later; or not, with False."""
        self._settings.compressed = compressed
        return self

    def with_format(self, name: Literal["canonical", "native-hashmap", "native-rocksdb"]) -> SavepointWriter:
        """The format of keyed state. ``canonical`` restores under every state backend, the others under their own."""
        self._settings.format = OutputFormat.of(name)
        return self

    def with_rocksdb_options(
        self, options: Mapping[str, Any] | None = None, factory: OptionsFactory | None = None
    ) -> SavepointWriter:
        """How tables of ``native-rocksdb`` are written: keys and values of Flink's configuration
        (``state.backend.rocksdb.…``, predefined options among them), and then what a factory makes of the options.
        Raises NotFound for a key that Flink does not have, InvalidOption for a value."""
        self._settings.rocksdb = rocksdb_options(options, factory)
        return self

    def with_flink_version(self, version: str) -> SavepointWriter:
        """The Flink release that will restore it, 1.13 to 2.3: it chooses the metadata version and how serializers are
        told. Default 1.20, for existing snapshots the release that wrote them."""
        self._settings.release = release(version)
        return self

    def with_storage_options(self, options: Mapping[str, Any]) -> SavepointWriter:
        """Options of the target's file system (fsspec). Without them, those with which the snapshot is read that the
        savepoint is made from, if both are on file systems of one kind."""
        self._settings.storage_options = dict(options)
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
        directory = _path(path)
        if not self._operators:
            raise InvalidOption("the savepoint has no operators", advice="add one: writer.with_operator(uid, …)")
        check_worker_python(self._spark)
        self._settings.verify = verify
        write_snapshot(
            self._spark, directory, list(self._operators.values()), self._settings, self._parallelism, self._source,
            overwrite=mode == "overwrite",
        )  # fmt: skip
        return directory

    def _found(self, uid: str) -> str:
        """The id of an operator that is there."""
        wanted = NewOperator.id_of(uid)
        if wanted in self._operators:
            return wanted
        names = {item.uid: key for key, item in self._operators.items() if item.uid}
        if uid in names:
            return names[uid]
        raise not_found("operator", uid, [*names, *self._operators])

    def _existing(self, uid: str) -> ExistingOperator:
        operator = self._operators[self._found(uid)]
        if not isinstance(operator, ExistingOperator):
            raise InvalidOption(f"operator {uid!r} is new", advice="its bootstrap tells all its states")
        return operator

    def _edit_ttl(self, uid: str, state: str, edit: TtlEdit) -> SavepointWriter:
        operator = self._existing(uid)
        operator.check_state(state)
        operator.edits.set_ttl(state, edit)
        return self


def _path(path: object) -> str:
    if not isinstance(path, str | os.PathLike):
        raise InvalidOption(f"the path {path!r}", advice="give the directory as text, or a pathlib.Path")
    return os.fspath(path)


def _text(value: object) -> str:
    """An option as Spark takes it."""
    return value if isinstance(value, str) else json.dumps(value)


def _milliseconds(time: object, what: str) -> int:
    """A time in ms since the epoch, now if none is given. Raises InvalidOption."""
    if time is None:
        return now_ms()
    if not isinstance(time, int) or not -(2**63) <= time < 2**63:
        raise InvalidOption(
            f"{what} {time!r}", advice="give whole milliseconds since the epoch: int(1000 * moment.timestamp())"
        )
    return time


def _release_of(source: Snapshot) -> Release:
    """The newest release that writes this version of metadata."""
    return {5: Release(2, 0), 6: Release(2, 3), 4: Release(1, 20)}.get(source.metadata.version, Release(1, 15))
