"""Write the operator state of an existing operator with its edits: positions, emptied states, parallelism."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stateproc.errors import InvalidOption, Where
from stateproc.flink_versions import Release
from stateproc.metadata.snapshot import OperatorEntry
from stateproc.model.operator import Operator
from stateproc.model.operator_state import opened_state
from stateproc.writers.commit.staging import Staging
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.rewrite.kafka_consumer_offsets import KafkaConsumerState, kafka_consumer_state
from stateproc.writers.rewrite.kafka_offsets import KafkaSourceState, kafka_source_state
from stateproc.writers.rewrite.kryo_conversion import ConversionProblem
from stateproc.writers.rewrite.operator_row_edits import EditedElements, edited_elements
from stateproc.writers.rewrite.operator_state_copy import (
    Elements,
    SubtaskOperatorState,
    changes_elements,
    merged_operator_header,
    raw_elements,
    refuse_raw_operator_state,
    repartitioned,
    subtask_states,
)
from stateproc.writers.rewrite.source_positions import SourceSplits, has_old_classes, source_splits
from stateproc.writers.rewrite.type_evolution import ElementEvolution, element_evolution

KafkaState = KafkaSourceState | KafkaConsumerState
"""The state of a Kafka source, new or old."""
SourceState = KafkaState | SourceSplits
"""The state of a source whose positions are set."""


def kafka_state(operator: Operator) -> KafkaState:
    """Read the state of a KafkaSource or a FlinkKafkaConsumer.

    Raises InvalidOption if the operator is neither, UnsupportedSnapshot, CorruptSnapshot, MissingFile.
    """
    return kafka_consumer_state(operator) or kafka_source_state(operator)


def writes_operator_state(operator: ExistingOperator, parallelism: int, release: Release) -> bool:
    """Whether the operator's operator state is written anew at this parallelism, and not copied with its files."""
    if operator.edits.touch_operator_state or parallelism != operator.operator.parallelism:
        return True
    if renames_classes(operator, release):
        return True
    upgrade = operator.upgrade(release)
    return upgrade is not None and changes_elements(operator.operator, upgrade)


def renames_classes(operator: ExistingOperator, release: Release) -> bool:
    """Whether splits that Flink CDC 2 wrote get the class names of 3.1 and later, which is the one for Flink 2."""
    wanted = operator.edits.cdc_classes or operator.upgrade(release) is not None
    return wanted and has_old_classes(operator.operator)


def element_problems(operator: ExistingOperator, release: Release) -> Iterator[ConversionProblem]:
    """Yield what keeps the elements of operator states from being converted for a release, which reads them."""
    own, upgrade = operator.operator, operator.upgrade(release)
    if upgrade is None or not changes_elements(own, upgrade):
        return
    for info in merged_operator_header(own).infos:
        if info.name not in operator.edits.emptied:
            pieces = (piece for part in raw_elements(own, info.name) for piece in part.read())
            yield from upgrade.element_problems(info, pieces)


def element_conversions(operator: ExistingOperator, release: Release) -> Iterator[tuple[str, str]]:
    """Yield the operator states that are converted for the release's Kryo, and what a plan says of it."""
    own, upgrade = operator.operator, operator.upgrade(release)
    if upgrade is None or not changes_elements(own, upgrade):
        return
    for info in merged_operator_header(own).infos:
        conversion = upgrade.elements(info)
        if conversion is not None:
            yield info.name, ", ".join([conversion.reason, *upgrade.taken_types(info)])
        elif (reason := upgrade.header_reason(info)) is not None:
            yield info.name, reason


def element_evolutions(operator: ExistingOperator) -> list[ElementEvolution]:
    """Return how elements of operator states get another type.

    Raises InvalidOption, UnsupportedSnapshot, CorruptSnapshot, MissingFile.
    """
    own, types = operator.operator, operator.edits.element_types
    if not types:
        return []
    infos = {info.name: info for info in merged_operator_header(own).infos}
    found: list[ElementEvolution] = []
    for name, change in types.items():
        state = own.operator_state(name)
        where = Where(operator=own.display, state=name)
        if opened_state(state) is not state:
            raise InvalidOption(
                "elements of a connector's state have no other type",
                where=where,
                advice="stateproc upgrade writes those of another release; leave the state out if the source changes",
            )
        if name in {*operator.edits.elements, *operator.edits.emptied}:
            raise InvalidOption(
                "elements are deleted, updated or dropped, and get another type, in one write",
                where=where,
                advice="change the type in a write of its own",
            )
        found.append(element_evolution(infos[name], change, own.context))
    return found


def source_before_and_after(operator: ExistingOperator, release: Release) -> tuple[SourceState, SourceState] | None:
    """Return the state of a source without and with the edits of its positions and classes; None if there are none.

    Raises NotFound, InvalidOption, UnsupportedSnapshot, CorruptSnapshot, MissingFile.
    """
    own, edits = operator.operator, operator.edits
    if edits.offsets and edits.positions:
        raise InvalidOption(
            "a source gets offsets and positions in one write",
            where=Where(operator=own.display),
            advice="give all as positions, by the splits that stateproc offsets lists",
        )
    renames = renames_classes(operator, release)
    if edits.positions or renames:
        splits = source_splits(own)
        changed = splits.changed(edits.positions, own.display)
        return splits, changed.renamed(own.display) if renames else changed
    if not edits.offsets:
        return None
    before = kafka_state(own)
    return before, before.changed(edits.offsets, own.parallelism, own.display)


@dataclass(frozen=True)
class EditedOperatorState:
    """The operator state of an operator that is written anew.

    Attributes:
        subtasks: The elements that each subtask receives.
        source: The state of a source without and with the edits of its positions; None if there are none.
        edited: States of which rows are deleted or updated.
    """

    operator: Operator
    subtasks: Sequence[SubtaskOperatorState]
    source: tuple[SourceState, SourceState] | None = None
    edited: Mapping[str, EditedElements] = field(default_factory=dict)

    def write(self, carried: OperatorEntry, release: Release, staging: Staging, *, verify: bool) -> OperatorEntry:
        """Return ``carried`` with the operator state, and write its files. Raises as `repartitioned`."""
        coordinator = None if self.source is None else self.source[1].coordinator()
        if coordinator is not None:
            carried = replace(carried, coordinator=coordinator)
        return repartitioned(self.operator, carried, self.subtasks, release, staging, verify=verify)


def edited_operator_state(
    operator: ExistingOperator, kept: OperatorEntry, parallelism: int, release: Release
) -> EditedOperatorState | None:
    """Return the operator state that is written anew; None if its files are copied.

    ``kept``: the operator with the handles of files that are copied. Raises InvalidOption for edits that do not fit the
    state, and for raw operator state and another parallelism; as `source_before_and_after` and `subtask_states`.
    """
    if not writes_operator_state(operator, parallelism, release):
        return None
    own = operator.operator
    source = source_before_and_after(operator, release)
    if parallelism != own.parallelism:
        refuse_raw_operator_state(kept, own.display)
    given: dict[str, Sequence[Elements]] = dict.fromkeys(operator.edits.emptied, ())
    if source is not None:
        given[source[1].state_name] = source[1].elements()
    for name in given.keys() & operator.edits.elements.keys():
        raise InvalidOption(
            "rows are deleted or updated of a state whose elements are set or dropped as well",
            where=Where(operator=own.display, state=name),
            advice="delete or update them in a write of its own",
        )
    edited = {name: edited_elements(own, name, edits) for name, edits in operator.edits.elements.items()}
    given |= {name: found.elements for name, found in edited.items()}
    evolved = [(evolution, evolution.evolved_info(release)) for evolution in element_evolutions(operator)]
    shares = subtask_states(own, parallelism, given, operator.upgrade(release), evolved)
    return EditedOperatorState(own, shares, source, edited)
