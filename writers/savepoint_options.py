"""The options of a savepoint that is built: format, release, parallelism, storage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from stateproc.errors import InvalidOption, not_found
from stateproc.flink_versions import release
from stateproc.keygroups.operator_ids import matching_operator_id, operator_id
from stateproc.keygroups.ranges import check_max_parallelism
from stateproc.reports.pending import pending
from stateproc.serializers.flinkx.scala_api import FLINK_SCALA_API
from stateproc.writers.bootstrap.new_operator import NewOperator
from stateproc.writers.commit.commit import CommitHooks
from stateproc.writers.formats.keyed_formats import OutputFormat
from stateproc.writers.formats.rocksdb.options import OptionsFactory, rocksdb_options
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.rewrite.kafka_offsets import Partition, committer_uid, offsets_edit, transaction_states
from stateproc.writers.rewrite.operator_state_edits import kafka_state
from stateproc.writers.rewrite.source_positions import source_splits
from stateproc.writers.scaled_operators import AnyOperator, WriteSettings

if TYPE_CHECKING:
    from typing_extensions import Self


class SavepointOptions:
    """The options of a savepoint, and its operators; see `SavepointWriter`."""

    def __init__(self, settings: WriteSettings) -> None:
        self._settings = settings
        self._parallelism: dict[str, int] = {}
        self._operators: dict[str, AnyOperator] = {}

    def with_max_parallelism(self, max_parallelism: int, uid: str | None = None) -> Self:
        """Set the number of key groups of all operators or of one; keys of existing ones are assigned to them anew.

        Args:
            max_parallelism: 1 to 32768.
            uid: the operator's uid or uid hash; None for all operators that have no number of their own.
        """
        check_max_parallelism(max_parallelism)
        if uid is None:
            self._settings.max_parallelism = max_parallelism
        else:
            self._settings.own_max_parallelism[self._found(uid)] = max_parallelism
        return self

    def with_checkpoint_id(self, checkpoint_id: int) -> Self:
        """Set the id of the checkpoint that the savepoint is to be. A job that restores it counts on from there.

        Args:
            checkpoint_id: 0 to 2^63 - 1; default that of the existing snapshot, 1 for a new savepoint.
        """
        if not isinstance(checkpoint_id, int) or isinstance(checkpoint_id, bool) or not 0 <= checkpoint_id < 1 << 63:
            raise InvalidOption(f"checkpoint id {checkpoint_id!r}", advice="give a whole number from 0 to 2^63 - 1")
        self._settings.checkpoint_id = checkpoint_id
        return self

    def with_parallelism(self, uid: str, parallelism: int) -> Self:
        """Set an operator's number of subtasks, and so of files, in the savepoint. Flink can restore at any other.

        Args:
            uid: the operator's uid or uid hash.
            parallelism: 1 to max parallelism.
        """
        self._parallelism[self._found(uid)] = parallelism
        return self

    def with_compression(self, compressed: bool = True) -> Self:
        """Compress keyed state, and new operator state for Flink 1.18 and later, with snappy.

        Args:
            compressed: False writes existing state uncompressed.
        """
        self._settings.compressed = compressed
        return self

    def with_format(self, name: Literal["canonical", "native-hashmap", "native-rocksdb"]) -> Self:
        """Set the format of keyed state; default canonical, for existing operators their own.

        Args:
            name: every state backend restores ``canonical``; the native ones are restored by their own only.
        """
        self._settings.format = OutputFormat.of(name)
        return self

    def with_rocksdb_options(
        self, options: Mapping[str, Any] | None = None, factory: OptionsFactory | None = None
    ) -> Self:
        """Set options of the tables of ``native-rocksdb``; see docs/native-rocksdb.md.

        Args:
            options: values by Flink's keys (``state.backend.rocksdb.…``, also the one of predefined options).
            factory: receives the resulting options and returns the final ones.

        Raises:
            NotFound: a key that Flink does not have.
            InvalidOption: an invalid value.
        """
        self._settings.rocksdb = rocksdb_options(options, factory)
        return self

    def with_flink_version(self, version: str) -> Self:
        """Set the Flink release that will restore the savepoint: it decides on versions of metadata and serializers.

        Args:
            version: 1.13 to 2.4; default 1.20, for existing snapshots the release that wrote them.
        """
        self._settings.release = release(version)
        return self

    def with_flink_cdc_classes(self) -> Self:
        """Name classes in the splits of Flink CDC as 3.1 and later do, which cannot read those of before.

        A savepoint of Flink 1.x that is written for 2.x has them anyway.
        """
        for operator in self._operators.values():
            if isinstance(operator, ExistingOperator):
                operator.edits.cdc_classes = True
        return self

    def with_scala_types(self, to: Literal["flink-scala-api"]) -> Self:
        """Convert types of Flink's Scala API, which Flink 2 does not have.

        Args:
            to: what the job that restores the savepoint has for them: ``flink-scala-api`` (org.apache.flinkx), 2.0 and
                later.

        Raises:
            InvalidOption: another value.
        """
        if to != FLINK_SCALA_API:
            raise InvalidOption(f"types of Scala of {to!r}", advice=f"there is {FLINK_SCALA_API!r}")
        for operator in self._operators.values():
            if isinstance(operator, ExistingOperator):
                operator.edits.scala = to
        return self

    def with_storage_options(self, options: Mapping[str, Any]) -> Self:
        """Set fsspec's options of the target's file system.

        Args:
            options: default those with which the source snapshot is read, if both are on file systems of one kind.
        """
        self._settings.storage_options = dict(options)
        return self

    def with_commit_hooks(self, hooks: CommitHooks) -> Self:
        """Set functions that are called when all files are complete, before the savepoint can be loaded.

        Args:
            hooks: A check, whose error ends the write, and a manifest that is written beside ``_metadata``.
        """
        self._settings.hooks = hooks
        return self

    def drop_in_flight_data(self) -> Self:
        """Drop the records in flight of an unaligned checkpoint, which are lost then."""
        self._settings.drop_in_flight = True
        return self

    def _existing(self, uid: str) -> ExistingOperator:
        operator = self._operators[self._found(uid)]
        if not isinstance(operator, ExistingOperator):
            raise InvalidOption(f"operator {uid!r} is new", advice="define all its states in its bootstrap")
        return operator

    def _found(self, uid: str) -> str:
        """The id of an existing operator. Raises NotFound, InvalidOption."""
        wanted = NewOperator.id_of(uid)
        if wanted in self._operators:
            return wanted
        names = {item.uid: key for key, item in self._operators.items() if item.uid}
        if uid in names:
            return names[uid]
        if (by_prefix := matching_operator_id(uid, self._operators)) is not None:
            return by_prefix
        raise not_found("operator", uid, [*names, *self._operators])


# Methods of the writer that change sources and sinks of an existing snapshot.


class SourceEdits(SavepointOptions):
    """Changes of sources; see `SavepointWriter`."""

    def set_kafka_offsets(
        self,
        uid: str,
        offsets: Mapping[str, int | str] | Mapping[Partition, int | str] | None = None,
        *,
        topics: Mapping[str, int | str] | None = None,
        everywhere: int | str | None = None,
        remove: Iterable[str | Partition] = (),
    ) -> Self:
        """Change where a KafkaSource continues: in the state of its readers and of its coordinator.

        Of a FlinkKafkaConsumer the union state of its partitions is changed.

        An offset is that of the next record, or ``earliest``, ``latest`` or ``committed`` (that of the consumer group).
        Partitions that are not named keep theirs. What is named more precisely has precedence.

        Args:
            uid: the source's uid or uid hash.
            offsets: the offsets of partitions, by ``topic:partition`` or (topic, partition); new ones are added.
            topics: the offset of all partitions of a topic that the source has.
            everywhere: the offset of all partitions that the source has.
            remove: partitions that the source no longer has. If they still exist in Kafka, a source that discovers
                partitions finds them again.

        Raises:
            NotFound: the source has no such operator, topic or partition.
            InvalidOption: the operator is no Kafka source, or an argument is no partition or offset.
        """
        operator = self._existing(uid)
        edit = offsets_edit(offsets, topics, everywhere, remove)
        own = operator.operator
        kafka_state(own).changed([*operator.edits.offsets, edit], own.parallelism, own.display)
        operator.edits.offsets.append(edit)
        return self

    def set_positions(self, uid: str, positions: Mapping[str, str]) -> Self:
        """Change where a source continues, in the words of its connector.

        Positions of Kafka (also DynamicKafkaSource), Flink CDC for MySQL, Postgres, Oracle and MongoDB, Kinesis and
        Pulsar can be set, and of any of them within a HybridSource; docs/commands/set-offsets.md has their forms.
        Splits that are not named keep theirs.

        Args:
            uid: the source's uid or uid hash.
            positions: the position of splits, by the names that `Snapshot.offsets` gives them; in a name ``*`` is any
                text. A split that is named itself has precedence.

        Raises:
            NotFound: the source has no such operator or split.
            InvalidOption: the operator is no source whose positions can be set, or a text is no position.
        """
        operator = self._existing(uid)
        if not positions:
            raise InvalidOption("no new positions", advice="give a position by the name of a split")
        own = operator.operator
        source_splits(own).changed([*operator.edits.positions, positions], own.display)
        operator.edits.positions.append(dict(positions))
        return self


class SinkEdits(SourceEdits):
    """Changes of sinks; see `SavepointWriter`."""

    def drop_kafka_transactions(self, uid: str) -> Self:
        """Drop the pending transactions of a Kafka sink, in the state of its writer and of its committer.

        Their records are not committed when the job is restored. The transactions stay open until Kafka aborts them,
        after the sink's ``transaction.timeout.ms``: until then readers of committed records wait.

        Args:
            uid: the sink's uid, or the uid hash of its writer or committer.

        Raises:
            NotFound: there is no such operator, or it has no state of a sink.
            InvalidOption: the state is that of another sink.
        """
        operators = [self._existing(uid)]
        committer = self._operators.get(operator_id(committer_uid(uid)))
        if isinstance(committer, ExistingOperator):
            operators.append(committer)
        found = [(operator, list(transaction_states(operator.operator))) for operator in operators]
        if not any(names for _, names in found):
            names = [state.name for operator in operators for state in operator.operator.operator_states]
            raise not_found("state of a sink in operator", uid, names)
        for operator, states in found:
            operator.edits.emptied.update(states)
        return self

    def drop_pending(self, uid: str) -> Self:
        """Drop what a sink has written and not committed, in the state of its writer and of its committer.

        A job that restores the savepoint does not commit it: files keep their temporary names, manifests do not become
        part of the table, transactions stay open until their time is over. Files in progress and records that wait are
        kept.

        Args:
            uid: the sink's uid, or the uid hash of its writer or committer.

        Raises:
            NotFound: there is no such operator, or nothing of it is pending.
            SnapshotError: the state of the sink cannot be read.
        """
        operators = [self._existing(uid)]
        committer = self._operators.get(operator_id(committer_uid(uid)))
        if isinstance(committer, ExistingOperator):
            operators.append(committer)
        found = {
            item: {row["state"] for row in pending([item.operator]) if row["status"] == "to commit"}
            for item in operators
        }
        if not any(found.values()):
            names = [row["operator"] for row in self._all_pending()]
            raise not_found("sink with something to commit", uid, sorted(set(names)))
        for item, states in found.items():
            item.edits.emptied.update(states)
        return self

    def _all_pending(self) -> Iterator[dict[str, Any]]:
        existing = (item for item in self._operators.values() if isinstance(item, ExistingOperator))
        return (row for row in pending(item.operator for item in existing) if row["status"] == "to commit")
