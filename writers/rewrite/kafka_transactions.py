"""Find the operator states with pending transactions of a Kafka sink: of its writer, and of its committer."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from stateproc.errors import InvalidOption, Where
from stateproc.model.connector_state import opened_state
from stateproc.model.operator import Operator
from stateproc.model.operator_state import OperatorStateView

WRITER_STATE, COMMITTER_STATE = "writer_raw_states", "streaming_committer_raw_states"


def committer_uid(uid: str) -> str:
    """Return the uid that Flink gives the committer of a sink with a uid."""
    return f"Sink Committer: {uid}"


def transaction_states(operator: Operator) -> Iterator[str]:
    """Yield the names of the operator's states with transactions of Kafka, also those without any.

    Raises:
        InvalidOption: Such a state has the transactions or files of another sink.
        SnapshotError: The state cannot be read.
    """
    for state in operator.operator_states:
        if state.name in (WRITER_STATE, COMMITTER_STATE):
            if not _is_kafka(state):
                raise InvalidOption(
                    "the state is not that of a Kafka sink",
                    where=Where(operator=operator.display, state=state.name),
                    advice="only Kafka's pending transactions can be dropped; others may name files that would be lost",
                )
            yield state.name


def _is_kafka(state: OperatorStateView) -> bool:
    rows = opened_state(state).to_arrow()
    if rows.num_rows == 0:
        return True
    if state.name == WRITER_STATE:
        return "transactional_id_prefix" in rows.column_names
    if "committables" not in rows.column_names:
        return False
    column = rows.column("committables")
    is_known = "transactional_id" in {field.name for field in column.type.value_type}
    return is_known or not pc.any(pc.greater(pc.list_value_length(column), 0)).as_py()
