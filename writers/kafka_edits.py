"""Methods of the writer that change Kafka sources and sinks of an existing snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from stateproc.errors import not_found
from stateproc.keygroups.operator_ids import operator_id
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.rewrite.kafka_offsets import Partition, committer_uid, offsets_edit, transaction_states
from stateproc.writers.rewrite.operator_state_edits import kafka_state
from stateproc.writers.savepoint_options import SavepointOptions

if TYPE_CHECKING:
    from typing_extensions import Self


class KafkaEdits(SavepointOptions):
    """Changes of Kafka sources and sinks; see `SavepointWriter`."""

    def set_kafka_offsets(
        self, uid: str, offsets: Mapping[str, int | str] | Mapping[Partition, int | str] | None = None, *,
        topics: Mapping[str, int | str] | None = None, everywhere: int | str | None = None,
        remove: Iterable[str | Partition] = (),
    ) -> Self:  # fmt: skip
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
