"""An operator built from DataFrames: its headers and the sources of its entries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from stateproc.errors import InvalidOption, Where
from stateproc.flink_versions import Release
from stateproc.keygroups.class_hashes import HASH_FUNCTIONS, ClassHash
from stateproc.keygroups.key_group_assignment import HASH_COLUMN, AnyHash, key_hash_of
from stateproc.keygroups.operator_ids import operator_id
from stateproc.metadata.stream_handles import ByteStreamHandle
from stateproc.readers.row_schema import KEY_GROUP
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.table.serializers import RowData
from stateproc.writers.bootstrap.keyed_bootstrap import KeyedRows
from stateproc.writers.bootstrap.keyed_encoder import RowEncoder
from stateproc.writers.bootstrap.operator_bootstrap import OperatorBootstrap, OperatorRows
from stateproc.writers.bootstrap.operator_state_encoder import ElementEncoder
from stateproc.writers.bootstrap.state_registration import broadcast_info, keyed_part, list_info
from stateproc.writers.formats.keyed_file import OperatorStateHeader
from stateproc.writers.write_spec import OperatorWriteSpec, WriteSpec
from stateproc.writers.write_task import FileOf, Source, element_encoding, row_encoding

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OPERATOR_ID = re.compile(r"[0-9a-fA-F]{32}")


class NewOperator:
    """An operator of the savepoint to be written, all of whose state comes from DataFrames."""

    def __init__(self, uid: str, state: OperatorBootstrap) -> None:
        self.operator_id = self.id_of(uid)
        self.uid: str | None = None if uid.lower() == self.operator_id else uid
        self._state = state

    @property
    def shared_frames(self) -> Sequence[DataFrame]:
        """The user's DataFrames from which those of several states are derived."""
        return self._state.shared

    @property
    def max_parallelism(self) -> int | None:
        """The number of key groups that Flink fixes; None where the writer decides."""
        return self._state.max_parallelism

    @property
    def declared_states(self) -> list[tuple[str, str]]:
        """Names and kinds of its states, in the order in which they were added."""
        keyed = [(rows.declared.name, rows.declared.kind.value) for rows in self._state.keyed]
        return keyed + [(rows.name, "broadcast" if rows.key else "list") for rows in self._state.operator]

    @staticmethod
    def id_of(uid: str) -> str:
        """The operator id of a uid, or of a uid hash. Raises InvalidOption for an empty one."""
        if not uid:
            raise InvalidOption("an operator needs a uid", advice="the one given in the job with .uid('…')")
        return uid.lower() if OPERATOR_ID.fullmatch(uid) else operator_id(uid)

    def spec(self, release: Release, parallelism: int, max_parallelism: int) -> OperatorWriteSpec:
        """The operator without its rows. Raises InvalidOption."""
        state = self._state
        if not state.keyed and not state.operator:
            raise InvalidOption(
                f"operator {self.uid or self.operator_id} has no state", advice="give it some, or leave it out"
            )
        keyed = keyed_part(state.key_type, [rows.declared for rows in state.keyed], release) if state.keyed else None
        coordinator = None if state.source is None else ByteStreamHandle(self.operator_id, state.source.coordinator)
        return OperatorWriteSpec(
            self.operator_id,
            self.uid,
            None,
            parallelism,
            max_parallelism,
            keyed,
            self._operator_part(release),
            coordinator=coordinator,
        )

    def _operator_part(self, release: Release) -> OperatorStateHeader | None:
        if not self._state.operator:
            return None
        lists, broadcasts = self._split()
        names = [rows.name for rows in self._state.operator]
        if len(set(names)) < len(names):
            raise InvalidOption(f"operator {self.uid} has two operator states of one name")
        return OperatorStateHeader(
            tuple(list_info(rows.name, rows.value, rows.mode, release) for rows in lists),
            tuple(broadcast_info(rows.name, rows.key, rows.value, release) for rows in broadcasts if rows.key),
        )

    def _split(self) -> tuple[list[OperatorRows], list[OperatorRows]]:
        rows = self._state.operator
        return [it for it in rows if it.mode != "BROADCAST"], [it for it in rows if it.mode == "BROADCAST"]

    def sources(self, spec: WriteSpec, index: int) -> Iterator[Source]:
        """The operator's rows; ``index``: its position in ``spec``. Raises InvalidOption."""
        mine = spec.operators[index]
        context = LayoutContext(kryo=spec.release.kryo, tail=True)
        if self._state.keyed:
            keyed_files = FileOf(spec.state_files, index, mine.parallelism, mine.max_parallelism)
            for state_id, rows in enumerate(self._state.keyed):
                encoder = row_encoder(rows, self._state.key_type, state_id, mine, self._state.hash, context)
                encoding = row_encoding(encoder, keyed_files)
                yield Source(rows.frame, rows.columns, encoding, keyed=True, parallelism=mine.parallelism)
        files = tuple(
            n for n, file in enumerate(spec.state_files) if file.operator == index and file.key_groups is None
        )
        for state_id, elements in enumerate(item for part in self._split() for item in part):
            of_elements = ElementEncoder(
                elements.name, elements.value, elements.key, state_id, files, context, mine.display
            )
            yield Source(
                elements.frame,
                elements.columns,
                element_encoding(of_elements),
                keyed=False,
                parallelism=mine.parallelism,
                broadcast=elements.mode == "BROADCAST",
            )


def row_encoder(
    rows: KeyedRows,
    key: Serializer,
    state_id: int,
    mine: OperatorWriteSpec,
    hash_function: str | ClassHash | None,
    context: LayoutContext,
) -> RowEncoder:
    """What makes entries of a state's rows; ``state_id``: the state's place in the operator's header.

    Raises InvalidOption if the hashes of keys are unknown.
    """
    given = HASH_COLUMN in rows.columns or KEY_GROUP in rows.columns
    hash_: AnyHash | None = None
    if not given:
        hash_ = hash_function if isinstance(hash_function, ClassHash) else key_hash_of(key, hash_function, context)
    if hash_ is None and not given and not isinstance(key, RowData):
        raise InvalidOption(
            f"the hashCode of keys of the type {key.type_name} is unknown: the class defines its own",
            where=Where(operator=mine.display, state=rows.declared.name),
            advice="give it in a column of ints, hash_column='…', or name it: hash='Objects.hash' (or another of "
            f"{HASH_FUNCTIONS}); of an existing operator, with_hash_function(uid, 'Objects.hash'), or transform_state "
            "with rows that keep their column key_group",
        )
    return RowEncoder(rows.declared.state(key, state_id), mine.max_parallelism, context, hash_, mine.display)
