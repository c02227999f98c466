"""What is asked of an operator of an existing snapshot: collected first, and done when the snapshot is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stateproc.errors import InvalidOption
from stateproc.model.operator_context import OperatorContext
from stateproc.query_plans.aggregate_conversion import FrameBuffers
from stateproc.query_plans.join_types import PartnerChange
from stateproc.query_plans.rank_order import RowsWithRanks
from stateproc.readers.state_descriptor import StateDescriptor
from stateproc.serializers import LayoutContext, Serializer
from stateproc.writers.bootstrap.operator_bootstrap import OperatorBootstrap
from stateproc.writers.rewrite.kafka_offsets import OffsetsEdit
from stateproc.writers.rewrite.key_evolution import KeyChange
from stateproc.writers.rewrite.rank_limit import RankLimit, rank_limit
from stateproc.writers.rewrite.rekey import HashCodes
from stateproc.writers.rewrite.row_selection import RowDeletion, row_deletion
from stateproc.writers.rewrite.row_update import RowUpdate, row_update
from stateproc.writers.rewrite.source_positions import Positions
from stateproc.writers.rewrite.ttl import TtlChange, ttl_off, ttl_on, ttl_purge
from stateproc.writers.rewrite.type_changes import Change


@dataclass(frozen=True)
class TtlEdit:
    """A change of a state's time to live: on (``last_access``), off, or purged (``ttl`` ms before ``now``), or both."""

    action: str
    last_access: int = 0
    ttl: int = 0
    now: int = 0

    def change(self, state: StateDescriptor, context: LayoutContext) -> TtlChange:
        """The change of this state's entries. Raises InvalidOption."""
        if self.action == "on":
            return ttl_on(state, context, self.last_access)
        change = ttl_off if self.action == "off" else ttl_purge
        return change(state, context, self.ttl, self.now)


@dataclass(frozen=True)
class DeleteEdit:
    """Rows of a state that are deleted: those for which a condition is true; ``flatten``: elements, map entries."""

    where: str
    flatten: bool = False

    def change(self, state: StateDescriptor, operator: OperatorContext, names: Sequence[str]) -> RowDeletion:
        """The change of this state's entries. Raises InvalidOption, UnsupportedSnapshot."""
        return row_deletion(state, self.where, operator, names, flatten=self.flatten)

    def words(self, rows: str) -> str:
        """What a plan says of the edit of these rows, which are counted, or ``rows``."""
        return f"{rows} deleted where {self.where}"


@dataclass(frozen=True)
class UpdateEdit:
    """Columns that are set, as ``column = expression``, of rows of a state for which a condition is true."""

    assignments: tuple[str, ...]
    where: str
    flatten: bool = False

    def change(self, state: StateDescriptor, operator: OperatorContext, names: Sequence[str]) -> RowUpdate:
        """The change of this state's entries. Raises InvalidOption, UnsupportedSnapshot."""
        return row_update(state, self.assignments, self.where, operator, names, flatten=self.flatten)

    def words(self, rows: str) -> str:
        """What a plan says of the edit of these rows, which are counted, or ``rows``."""
        return f"{rows} updated: {', '.join(self.assignments)} where {self.where}"


@dataclass(frozen=True)
class RankEdit:
    """Rows of TopN that are dropped, as they are beyond its last rank."""

    ranks: RowsWithRanks

    def change(self, state: StateDescriptor, operator: OperatorContext, names: Sequence[str]) -> RankLimit:
        """The change of this state's entries. Raises UnsupportedSnapshot."""
        return rank_limit(state, self.ranks, operator)

    def words(self, rows: str) -> str:
        """What a plan says of the edit of these rows, which are counted, or ``rows``."""
        return f"{rows} dropped beyond rank {self.ranks.last}"


@dataclass
class Edits:
    """The edits of one operator.

    ``rows``: edits of rows, in the order in which they are made. ``types``: other types of values, after them.
    ``states``: callbacks that add states from DataFrames to the operator's bootstrap; each replaces that of its name.
    ``offsets``: new offsets of a Kafka source, ``positions``: those of any source, in their order. ``cdc_classes``:
    classes in splits are named as Flink CDC 3.1 and later name them.
    ``elements``: edits of rows of operator states. ``element_types``: other types of their elements. ``emptied``:
    operator states that lose all elements. ``key``: another type of the keys. ``partners``: what becomes of the
    numbers of partners in the state of a join's input, and the state of the other one if there is one. ``frames``: what
    of the accumulators of a state is computed of the rows in a frame of OVER. ``user_keys``: other types of the keys of
    maps, which stay the bytes that they are.
    """

    dropped: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)
    ttl: dict[str, TtlEdit] = field(default_factory=dict)
    rows: dict[str, list[DeleteEdit | UpdateEdit | RankEdit]] = field(default_factory=dict)
    types: dict[str, Change] = field(default_factory=dict)
    element_types: dict[str, Change] = field(default_factory=dict)
    states: list[Callable[[OperatorBootstrap], object]] = field(default_factory=list)
    hash_function: str | HashCodes | None = None
    offsets: list[OffsetsEdit] = field(default_factory=list)
    positions: list[Positions] = field(default_factory=list)
    cdc_classes: bool = False
    scala: str | None = None
    elements: dict[str, list[DeleteEdit | UpdateEdit]] = field(default_factory=dict)
    emptied: set[str] = field(default_factory=set)
    key: KeyChange | None = None
    partners: dict[str, tuple[PartnerChange, str | None]] = field(default_factory=dict)
    frames: dict[str, FrameBuffers] = field(default_factory=dict)
    user_keys: dict[str, Serializer] = field(default_factory=dict)

    @property
    def touch_keyed(self) -> bool:
        """Whether the operator's keyed state has to be rewritten."""
        return bool(
            self.dropped
            or self.renamed
            or self.ttl
            or self.rows
            or self.types
            or self.states
            or self.partners
            or self.user_keys
            or self.key is not None
        )

    @property
    def touch_operator_state(self) -> bool:
        """Whether the operator's operator state has to be written anew."""
        return bool(self.offsets or self.positions or self.emptied or self.elements or self.element_types)

    def set_type(self, state: str, change: Change, *, of_elements: bool) -> None:
        types = self.element_types if of_elements else self.types
        if state in types:
            raise InvalidOption(f"the type of state {state!r} is changed twice", advice="change it once in a write")
        types[state] = change

    def set_key_names(self, state: str, old: Serializer, named: Serializer) -> None:
        if named != old:
            self.user_keys[state] = named

    def set_key(self, change: KeyChange) -> None:
        if self.key is not None:
            raise InvalidOption("the type of keys is changed twice", advice="change it once in a write")
        self.key = change

    def set_ttl(self, state: str, edit: TtlEdit) -> None:
        if state in self.ttl:
            raise InvalidOption(
                f"the time to live of state {state!r} is changed twice",
                advice="change it once in a write: purge what has expired first, and switch in a second write",
            )
        self.ttl[state] = edit
