"""An operator of an existing snapshot: copied with its files, or its keyed state rewritten as entries."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from stateproc.errors import InvalidOption, UnsupportedSnapshot, Where, located, not_found
from stateproc.flink_versions import Release
from stateproc.html.units import counted
from stateproc.keygroups.class_hashes import SCALA, ClassHash
from stateproc.keygroups.key_group_assignment import key_hash_of
from stateproc.metadata.backend import StateMetaInfo
from stateproc.metadata.keyed_handles import ChangelogHandle, IncrementalHandle, KeyedHandle
from stateproc.metadata.snapshot_kind import first_reading_release
from stateproc.model.operator import Operator
from stateproc.model.raw_keyed import raw_keyed_parts
from stateproc.options import SPLIT_BYTES
from stateproc.readers.row_schema import KEY_GROUP
from stateproc.readers.state_descriptor import StateDescriptor
from stateproc.serializers import LayoutContext, Serializer, proxied_snapshot
from stateproc.serializers.table.serializers import RowData
from stateproc.writers.bootstrap.keyed_bootstrap import KeyedRows
from stateproc.writers.bootstrap.new_operator import row_encoder
from stateproc.writers.bootstrap.operator_bootstrap import OperatorBootstrap
from stateproc.writers.formats.keyed_file import KeyedStateHeader
from stateproc.writers.formats.keyed_formats import KEYED_FORMATS, OutputFormat
from stateproc.writers.rewrite.edited_splits import EditedSplit, RawCopies, joined
from stateproc.writers.rewrite.edits import Edits
from stateproc.writers.rewrite.frame_sums import ROWS_STATE, TIME_STATE, FrameSums, frame_sums
from stateproc.writers.rewrite.key_evolution import (
    BucketColumns,
    BucketKey,
    KeyChange,
    KeyEvolution,
    MatchedKey,
    WiderColumns,
    WiderKey,
    is_rewritten,
    key_collisions,
    key_evolution,
    matched_key,
)
from stateproc.writers.rewrite.kind_evolution import KindEvolution, kind_evolution
from stateproc.writers.rewrite.kryo_conversion import (
    ConversionProblem,
    KryoConversion,
    KryoUpgrade,
    has_kryo,
    is_convertible,
)
from stateproc.writers.rewrite.kryo_versions import (
    check_kryo,
    check_kryo_rows,
    check_scala,
    has_kryo_keyed,
    has_scala_keyed,
)
from stateproc.writers.rewrite.merged_header import MergedHeader, merged_header, with_timer_key, with_user_key_snapshot
from stateproc.writers.rewrite.partner_numbers import PartnerNumbers, partner_numbers
from stateproc.writers.rewrite.rank_limit import RankLimit
from stateproc.writers.rewrite.raw_copy import CarriedSplit, carried_splits, refuse_other_key_groups
from stateproc.writers.rewrite.rekey import (
    HashChoice,
    HashCodes,
    KeyHashes,
    Regrouping,
    Rekey,
    RekeyedEncoder,
    choose_hash,
    confirm_function,
    default_hash_name,
    key_hashes,
    regrouping_words,
    rekey,
)
from stateproc.writers.rewrite.row_selection import RowDeletion
from stateproc.writers.rewrite.row_update import RowUpdate
from stateproc.writers.rewrite.ttl import TtlChange, ttl_purge, with_ttl, without_ttl
from stateproc.writers.rewrite.type_changes import Change, TypeChange
from stateproc.writers.rewrite.type_evolution import TypeEvolution, type_evolution
from stateproc.writers.write_spec import OperatorWriteSpec, WriteSpec
from stateproc.writers.write_task import Encoder, FileOf, Source, row_encoding

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_SPLIT_OF_A_JOIN = SPLIT_BYTES // 8


class ExistingOperator:
    """An operator of a snapshot that is rewritten. ``operator_id``, ``uid``: its identifiers in the new snapshot."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.operator_id = operator.operator_id
        self.uid = operator.uid
        self.edits = Edits()
        self.adopted: ExistingOperator | None = None
        """Another operator of the snapshot with its edits, whose states come beside the own ones."""
        self._confirmed: HashCodes | None = None
        self._hash_choice: tuple[str, HashChoice] | None = None
        self._upgrade: KryoUpgrade | None = None
        self._matched_key: tuple[KeyChange, MatchedKey | WiderColumns | BucketColumns] | None = None
        self._rows_changed: dict[str, tuple[RowDeletion | RowUpdate | RankLimit, ...]] = {}
        self._types_changed: dict[str, tuple[Change, TypeEvolution | KindEvolution]] = {}
        self._new_key_hash: str | None = None
        self._key_hashes: tuple[KeyHashes | None] | None = None
        self._bootstrapped: tuple[tuple[Callable[[OperatorBootstrap], object], ...], OperatorBootstrap] | None = None

    @property
    def shared_frames(self) -> Sequence[DataFrame]:
        """The user's DataFrames from which those of several states are derived."""
        return self._bootstrap().shared if self.edits.states else ()

    def check_state(self, name: str) -> None:
        """Raise NotFound unless the operator has a keyed state of this name."""
        names = self.header.names
        if name not in names:
            raise not_found("keyed state", name, names, f"operator '{self.operator.display}'")

    def is_operator_state(self, name: str) -> bool:
        """Whether the operator has a list, union or broadcast state of this name, and no keyed state."""
        return any(state.name == name for state in self.operator.operator_states) and name not in self.header.names

    def check_release(self, release: Release) -> None:
        """Raise UnsupportedSnapshot if a state that stays means other values in this release."""
        rows = [item.declared for item in self._rows()]
        if self.upgrade(release) is not None:
            self._refuse_types_and_conversions(release)
        if self.edits.scala is None:
            check_scala(self.operator, release, {*self.edits.dropped, *(item.name for item in rows)})
        elif release.major < 2:
            raise InvalidOption(
                f"types of {self.edits.scala} for Flink {release}, which has Flink's Scala API",
                advice="write for Flink 2 (flink_version)",
            )
        elif has_scala_keyed(self.operator):
            self._check_scala_conversion(bool(rows))
        if self.upgrade(release) is None or self.operator.unreadable_keyed_files:
            check_kryo(self.operator, release, {*self.edits.dropped, *(item.name for item in rows)})
        if rows and self.header.key is not None:
            check_kryo_rows(self.operator, release, self.header.key, rows)

    def _check_scala_conversion(self, with_rows: bool) -> None:
        """Raise what keeps types of Scala in keyed state from being converted: files, or states of rows beside them."""
        for _, error in self.operator.unreadable_keyed_files:
            raise error
        if with_rows:
            raise InvalidOption(
                "states are written from rows, and types of Flink's Scala API are converted, in one write",
                where=Where(operator=self.operator.display),
                advice="upgrade first, and write the rows into what that wrote",
            )

    def _refuse_types_and_conversions(self, release: Release) -> None:
        """Raise InvalidOption for states that get another type, while values of Kryo in them are converted."""
        types = self.edits.types.items()
        evolved: list[str | None] = [
            name for name, change in types if self.conversion(name, release) or any(map(has_kryo, _types(change)))
        ]
        evolved += self.edits.element_types
        what = "values get"
        if not evolved and isinstance(self.edits.key, TypeChange) and self._converts_keyed(release):
            what, evolved = "keys get", [None]
        if evolved:
            raise InvalidOption(
                f"{what} another type, and values of Kryo are converted for Flink {release}, in one write",
                where=Where(operator=self.operator.display, state=evolved[0]),
                advice="change the type in a write of its own, and upgrade what it wrote",
            )

    def upgrade(self, release: Release) -> KryoUpgrade | None:
        """Return how values of Kryo are converted for a release; None if they are not."""
        if not is_convertible(self.operator, release):
            return None
        scala = self.edits.scala is not None
        if self._upgrade is None or (self._upgrade.release, self._upgrade.scala) != (release, scala):
            self._upgrade = KryoUpgrade(self.operator, release, scala)
        return self._upgrade

    def conversion(self, name: str, release: Release) -> KryoConversion | None:
        """Return how entries of a keyed state that stays are converted. Raises UnsupportedSnapshot."""
        upgrade, edit = self.upgrade(release), self.edits.ttl.get(name)
        if upgrade is None:
            return None
        ttl = None if edit is None or edit.action == "purge" else edit.action == "on"
        return upgrade.conversion(self.header, name, ttl=ttl)

    def conversion_problems(self, release: Release) -> Iterator[ConversionProblem]:
        """Yield what keeps states that stay from being converted; the first entries of each are read.

        Raises SnapshotError for entries that cannot be read.
        """
        upgrade = self.upgrade(release)
        if upgrade is None:
            return
        for name in self._kept_names() if self._converts_keyed(release) else ():
            try:
                yield from upgrade.problems(self.header, name, self._entries(name))
            except UnsupportedSnapshot as error:
                yield ConversionProblem(self.operator.display, name, error.message, error)

    def _entries(self, name: str) -> Iterator[pa.RecordBatch]:
        for split in carried_splits(self.operator, name, 0):
            yield from split.read()

    def _converts_keyed(self, release: Release) -> bool:
        """Whether entries or serializer snapshots of keyed state change for the release's Kryo."""
        upgrade = self.upgrade(release)
        if upgrade is None or self.operator.unreadable_keyed_files:
            return False
        if not has_kryo_keyed(self.operator) and not (upgrade.scala and has_scala_keyed(self.operator)):
            return False
        names = self._kept_names()
        return upgrade.changes_header(self.header, names) or any(
            self.conversion(name, release) is not None for name in names
        )

    @cached_property
    def header(self) -> MergedHeader:
        """The operator's keyed states as they are. Raises UnsupportedSnapshot, CorruptSnapshot, MissingFile."""
        return merged_header(self.operator)

    def keeps_keyed_files(
        self,
        release: Release,
        max_parallelism: int,
        parallelism: int,
        format_: OutputFormat | None,
        compressed: bool | None,
    ) -> bool:
        """Whether the files of keyed state can be copied unchanged."""
        own = self.operator
        if (
            self.edits.touch_keyed
            or self.adopted is not None
            or (max_parallelism, parallelism) != (own.max_parallelism, own.parallelism)
        ):
            return False
        if self._converts_keyed(release):
            return False
        handles = [item.managed_keyed for item in own.metadata.subtasks if item.managed_keyed is not None]
        if not all(_is_read_by(release, handle, own.context.metadata_version) for handle in handles):
            return False
        if format_ is not None and not all(map(KEYED_FORMATS[format_].is_handle_of, handles)):
            return False
        if compressed is None:
            return True
        return all(file.header is None or file.header.compressed is compressed for file in own.keyed_files)

    def spec(self, release: Release, parallelism: int, max_parallelism: int, *, keyed: bool) -> OperatorWriteSpec:
        """Return the operator without the handles of files that are copied; ``keyed``: its keyed state is rewritten.

        Raises InvalidOption, UnsupportedSnapshot.
        """
        if keyed:
            refuse_other_key_groups(self.operator, max_parallelism)
            self._refuse_raw_keys()
        part = self._part(release) if keyed else None
        collisions = key_collisions(self.matched_key) if keyed else None
        return OperatorWriteSpec(
            self.operator_id,
            self.uid,
            self.operator.name,
            parallelism,
            max_parallelism,
            part,
            collisions=collisions,
        )

    def _refuse_raw_keys(self) -> None:
        """Raise UnsupportedSnapshot for raw keyed state of keys that get another type."""
        if is_rewritten(self.header.key, self.edits.key) and any(raw_keyed_parts(self.operator)):
            raise UnsupportedSnapshot(
                "raw keyed state that is no timers: only the operator knows its keys, which get another type",
                where=Where(file=self.operator.location.metadata_uri, operator=self.operator.display),
                advice="let the operator begin without state: of a SQL job --empty, of any other drop-operator",
            )

    def _part(self, release: Release) -> KeyedStateHeader | None:
        header, rows = self.header, self._rows()
        if header.key is None:
            return None
        infos = [one._edited(one.header.carried(name), release) for one in self._both() for name in one._kept_names()]
        upgrade, key, key_snapshot = self.upgrade(release), header.key, header.key_snapshot
        if upgrade is not None:
            infos = [upgrade.info(info) for info in infos]
            key, key_snapshot = upgrade.converted(key), upgrade.snapshot(key, key_snapshot)
        if self.edits.key is not None:
            key, key_snapshot = self.edits.key.value, proxied_snapshot(self.edits.key.value, release)
            infos = [with_timer_key(info, key_snapshot) for info in infos]
        if self._key_of_rows is not None:
            infos += [item.declared.info(self._key_of_rows, release) for item in rows]
        names = [info.name for info in infos]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidOption(
                f"operator {self.operator.display} would have two states called '{twice}'",
                where=Where(operator=self.operator.display, state=twice),
                advice="transform or add a state once in a write, and give each another name",
            )
        return KeyedStateHeader(key, key_snapshot, tuple(infos))

    @property
    def _key_of_rows(self) -> Serializer | None:
        """The type of keys of states that come from DataFrames."""
        return self.header.key if self.edits.key is None else self.edits.key.value

    def _bootstrap(self) -> OperatorBootstrap:
        """The states that callbacks add. Each callback runs once, however often its states are asked for.

        Raises InvalidOption, and whatever a callback raises.
        """
        callbacks = tuple(self.edits.states)
        if self._bootstrapped is None or self._bootstrapped[0] != callbacks:
            key = self._key_of_rows
            if key is None:
                raise InvalidOption(
                    f"operator {self.operator.display} has no keyed state to which states could be added"
                )
            state = OperatorBootstrap(key_type=key)
            for add in callbacks:
                add(state)
            self._bootstrapped = callbacks, state
        return self._bootstrapped[1]

    def _rows(self) -> Sequence[KeyedRows]:
        """The states that come from DataFrames. Raises InvalidOption."""
        if not self.edits.states:
            return ()
        state = self._bootstrap()
        if state.operator:
            raise InvalidOption(
                "operator state cannot be added to an existing operator",
                advice="replace the whole operator: with_operator(uid, …)",
            )
        made = {item.declared.name for item in state.keyed}
        if made & self.edits.dropped:
            raise InvalidOption(
                "a state is dropped that comes from a DataFrame as well",
                where=Where(operator=self.operator.display, state=min(made & self.edits.dropped)),
                advice="a state from a DataFrame replaces the one of its name: do not drop that",
            )
        if made and isinstance(self.edits.key, TypeChange):
            raise InvalidOption(
                "keys get another type, and a state comes from a DataFrame",
                where=Where(operator=self.operator.display, state=min(made)),
                advice="change the type of keys in a write of its own",
            )
        edited = made & (self.edits.rows.keys() | self.edits.types.keys())
        if edited:
            raise InvalidOption(
                "rows are deleted or updated, or get another type, of a state that comes from a DataFrame",
                where=Where(operator=self.operator.display, state=min(edited)),
                advice="change the DataFrame, or the rows in a second write",
            )
        replaced = made & {*self.edits.ttl, *self.edits.renamed}
        if replaced:
            raise InvalidOption(
                "a state that comes from a DataFrame would get another name or time to live as well",
                where=Where(operator=self.operator.display, state=min(replaced)),
                advice="give both where the state is added (with_states: name, ttl), or change them in a second write",
            )
        return state.keyed

    def _both(self) -> list[ExistingOperator]:
        """The operator, and the one whose states it gets."""
        return [self] if self.adopted is None else [self, self.adopted]

    def _copied(self) -> Iterator[tuple[int, ExistingOperator, str]]:
        """Yield the keyed states that stay, with their ids, and the operators of the snapshot that have them."""
        names = ((one, name) for one in self._both() for name in one._kept_names())
        for state_id, (one, name) in enumerate(names):
            yield state_id, one, name

    def _kept_names(self) -> list[str]:
        """The operator's own keyed states that stay."""
        rows = self._rows()
        return [name for name in self.header.names if self._stays(name, rows)]

    def _stays(self, name: str, rows: Sequence[KeyedRows]) -> bool:
        return name not in self.edits.dropped and all(item.declared.name != name for item in rows)

    def _edited(self, info: StateMetaInfo, release: Release) -> StateMetaInfo:
        evolution = self.type_change(info.name)
        if evolution is not None:
            info = evolution.info(info, release)
        numbers = self.partner_numbers(info.name, 0)
        if numbers is not None:
            info = numbers.info(info, release)
        if info.name in self.edits.user_keys:
            info = with_user_key_snapshot(info, proxied_snapshot(self.edits.user_keys[info.name], release))
        edit = self.edits.ttl.get(info.name)
        if edit is not None and edit.action != "purge":
            info = with_ttl(info) if edit.action == "on" else without_ttl(info)
        return replace(info, name=self.edits.renamed.get(info.name, info.name))

    def _edited_splits(
        self, name: str, state_id: int, mine: OperatorWriteSpec, release: Release
    ) -> Iterator[EditedSplit]:
        """The splits of a state that stays, with the changes of their entries."""
        ttl, key_groups = self._entry_changes(name, state_id, mine, release)
        changes, kryo = self._row_changes(name), self.conversion(name, release)
        evolution = self.type_change(name)
        for split in self._carried_splits(name, state_id):
            touched = tuple(it for it in changes if it.touches(split.key_groups))
            computed = self.partner_numbers(name, state_id, split) or self.frame_sums(name, state_id, split)
            yield EditedSplit(split, ttl, key_groups, touched, kryo, evolution, computed)

    def _carried_splits(self, name: str, state_id: int) -> list[CarriedSplit]:
        """The splits of a state; smaller ones of a join's input, each of which knows all keys of the other one, and of
        accumulators that are computed of rows."""
        found = carried_splits(self.operator, name, state_id)
        change, other = self.edits.partners.get(name, (None, None))
        if name in self.edits.frames and ROWS_STATE in self.header.names:
            other = ROWS_STATE
        elif change is None or other is None or not change.on:
            return found
        sizes = [sum(split.bytes for split in one) for one in (found, carried_splits(self.operator, other, 0))]
        share = min(1.0, sizes[0] / max(1, sizes[1]))
        return carried_splits(self.operator, name, state_id, split_bytes=max(1, int(_SPLIT_OF_A_JOIN * share)))

    def _entry_changes(
        self, name: str, state_id: int, mine: OperatorWriteSpec, release: Release
    ) -> tuple[TtlChange | None, Rekey | KeyEvolution | Regrouping | None]:
        """How the entries of a state that stays change; its serializers are read only where they do."""
        edit, context = self.edits.ttl.get(name), self.operator.options.context
        ttl: TtlChange | None = None
        key_groups: Rekey | KeyEvolution | Regrouping | None = None
        if edit is not None:
            state, numbers = self._with_type(name, state_id), self.partner_numbers(name, state_id)
            ttl = edit.change(state if numbers is None else numbers.applied(state), context)
        conversion, change = self.matched_key, self.edits.key
        if conversion is not None and change is not None:
            key_groups = key_evolution(
                self._with_type(name, state_id),
                conversion,
                change.value,
                mine.max_parallelism,
                self.operator.context,
                hash_function=self._hash_of_new_keys(),
            )
        elif (hashes := self._scala_hashes(release)) is not None:
            key_groups = hashes.of(self._with_type(name, state_id), self.operator, mine.max_parallelism)
        elif mine.max_parallelism != self.operator.max_parallelism:
            state = self._with_type(name, state_id)
            function = self._hash_function(by_default=True)
            key_groups = rekey(
                state,
                mine.max_parallelism,
                context,
                hash_function=function,
                operator=mine.display,
                source=self.operator.context,
            )
        return ttl, key_groups

    def _with_type(self, name: str, state_id: int) -> StateDescriptor:
        """Return a state that stays as the edits of its entries after that of their type find it."""
        state, evolution = self.header.keyed(name, state_id), self.type_change(name)
        return state if evolution is None else evolution.applied(state)

    def _scala_hashes(self, release: Release) -> KeyHashes | None:
        """Return how keys of Scala are hashed by the old job and by the new one; None where both do alike.

        Raises UnsupportedSnapshot, InvalidOption.
        """
        upgrade = self.upgrade(release)
        if upgrade is None or not upgrade.scala:
            return None
        if self._key_hashes is None:
            self._key_hashes = (key_hashes(self.operator, self.header, self.edits.hash_function),)
        return self._key_hashes[0]

    @property
    def matched_key(self) -> MatchedKey | WiderColumns | BucketColumns | None:
        """What keys become; None if they stay the bytes they are. Raises InvalidOption, UnsupportedSnapshot."""
        change = self.edits.key
        if change is None:
            return None
        key = self.header.key
        if key is None or not is_rewritten(key, change):
            return None
        if self._matched_key is None or self._matched_key[0] is not change:
            self._matched_key = change, self._conversion_of_keys(key, change)
        return self._matched_key[1]

    def _conversion_of_keys(self, key: Serializer, change: KeyChange) -> MatchedKey | WiderColumns | BucketColumns:
        own = self.operator.context
        context = replace(own.options.context.inner, temporal="exact")
        if isinstance(change, WiderKey):
            return WiderColumns(key, change.value, context)
        if isinstance(change, BucketKey):
            return BucketColumns(key, change, context)
        states = (self.header.keyed(name) for name in self.header.names)
        rows = next((state for state in states if not state.kind.is_queue), None)
        if own.row_names is not None and rows is not None:
            key = own.row_names.applied(rows).key
        return matched_key(key, change, own)

    @property
    def key_words(self) -> tuple[str, ...]:
        """What a plan says of keys that get the type that a user wants. Raises InvalidOption, UnsupportedSnapshot."""
        conversion = self.matched_key
        return conversion.words if isinstance(conversion, MatchedKey | BucketColumns) else ()

    def _hash_of_new_keys(self) -> HashCodes | ClassHash | None:
        """Return how keys of another type are hashed, if their class has a hash of its own. Raises InvalidOption."""
        given, key = self.edits.hash_function, self._key_of_rows
        if callable(given) or key is None:
            return given if callable(given) else None
        named = given or default_hash_name(key)
        if named is None:
            return None
        is_confirmed = named == SCALA and default_hash_name(self.header.key) == SCALA
        if is_confirmed:
            # The release of Scala is that of the keys in the snapshot.
            if self._hash_choice is None:
                self._hash_choice = named, choose_hash(self.operator, self.header, named)
            named = self._hash_choice[1].hash.name
        with located(InvalidOption, operator=self.operator.display):
            found = key_hash_of(key, named, self.operator.options.context)
        self._new_key_hash = None if is_confirmed else named
        return found if isinstance(found, ClassHash) else None

    def _row_changes(self, name: str) -> tuple[RowDeletion | RowUpdate | RankLimit, ...]:
        """The edits of a state's rows, in their order. Raises InvalidOption, UnsupportedSnapshot."""
        edits, known = self.edits.rows.get(name, []), self._rows_changed.get(name, ())
        if len(known) != len(edits):  # edits are only added
            names, own = self.header.names, self.operator.context
            known = tuple(edit.change(self.header.keyed(name), own, names) for edit in edits)
            self._rows_changed[name] = known
        return known

    def type_change(self, name: str) -> TypeEvolution | KindEvolution | None:
        """The change of the type of a state's values, or of its kind. Raises InvalidOption, UnsupportedSnapshot."""
        change = self.edits.types.get(name)
        if change is None:
            return None
        known = self._types_changed.get(name)
        if known is None or known[0] is not change:
            evolution = type_evolution if change.kind is None else kind_evolution
            known = change, evolution(self.header.keyed(name), change, self.operator.context, self.header.names)
            self._types_changed[name] = known
        return known[1]

    def partner_numbers(self, name: str, state_id: int, split: CarriedSplit | None = None) -> PartnerNumbers | None:
        """What becomes of the numbers of partners in the state of a join's input, for entries of a split.

        Raises InvalidOption, UnsupportedSnapshot.
        """
        change, other = self.edits.partners.get(name, (None, None))
        if change is None:
            return None
        if self.edits.rows or self.edits.states:
            raise InvalidOption(
                "rows of a join are changed in the write that counts their partners",
                where=Where(operator=self.operator.display, state=name),
                advice="change them in a write of their own",
            )
        own = self._with_type(name, state_id)
        partners = None if other is None else self.header.keyed(other)
        edit = None if other is None else self.edits.ttl.get(other)
        expired: TtlChange | None = None
        if partners is not None and edit is not None and edit.action != "on" and edit.ttl:
            # What the write drops of the other input is no partner.
            expired = ttl_purge(partners, self.operator.options.context, edit.ttl, edit.now)
        with located(operator=self.operator.display):
            return partner_numbers(self.operator, (own, partners), change, split, expired)

    def frame_sums(self, name: str, state_id: int, split: CarriedSplit | None = None) -> FrameSums | None:
        """What computes accumulators of new calls of OVER, for entries of a split.

        Raises InvalidOption, UnsupportedSnapshot.
        """
        frame = self.edits.frames.get(name)
        if frame is None:
            return None
        if self.edits.rows or self.edits.states:
            raise InvalidOption(
                "rows of OVER are changed in the write that computes new calls of them",
                where=Where(operator=self.operator.display, state=name),
                advice="change them in a write of their own",
            )
        own = self._with_type(name, state_id)
        states = [self.header.keyed(one) for one in (ROWS_STATE, TIME_STATE) if one in self.header.names]
        with located(operator=self.operator.display):
            return frame_sums(self.operator, own, states, frame, split)

    def row_edits(self, name: str, *, count: bool) -> list[str]:
        """Return what a plan says of the edits of a state's rows.

        Args:
            name: A state that stays.
            count: Whether to count the rows, by reading the state.

        Raises:
            SnapshotError: The state cannot be read.
        """
        edits = self.edits.rows.get(name, [])
        if not edits or not count:
            return [edit.words("rows") for edit in edits]
        changes = self._row_changes(name)
        counts: list[list[int]] = [[] for _ in changes]
        for split in carried_splits(self.operator, name, 0):
            touched = [(it, seen) for it, seen in zip(changes, counts, strict=True) if it.touches(split.key_groups)]
            entries: Iterable[pa.RecordBatch] = split.read() if touched else ()
            for change, seen in touched:
                entries = change.batches(entries, seen.append)
            deque(entries, maxlen=0)
        return [
            edit.words(counted(sum(seen), *change.row_words))
            for edit, change, seen in zip(edits, changes, counts, strict=True)
        ]

    def _hash_function(self, *, by_default: bool) -> HashCodes | ClassHash | None:
        """Return how keys are hashed: a function, or the formula that keys confirm, of a name that was given or
        (``by_default``) of the serializer. Raises InvalidOption.
        """
        given = self.edits.hash_function
        if callable(given):
            return given
        named = given or (default_hash_name(self.header.key) if by_default else None)
        if named is None or self.header.key is None:
            return None
        if self._hash_choice is None or self._hash_choice[0] != named:
            self._hash_choice = named, choose_hash(self.operator, self.header, named)
        return self._hash_choice[1].hash

    @property
    def hash_notes(self) -> list[str]:
        """What a plan says of the formula of keys' hash codes, if one was chosen."""
        notes = [] if self._hash_choice is None else [self._hash_choice[1].note(self.operator.display)]
        if self._key_hashes is not None and self._key_hashes[0] is not None:
            notes.append(regrouping_words(self.operator.display, self._key_hashes[0]))
        if self._new_key_hash is not None:
            notes.append(
                f"{self.operator.display}: keys of the new type are hashed by {self._new_key_hash}, which no key of "
                "the snapshot confirms: be sure that it is the hashCode of the job's class"
            )
        return notes

    def check_entries(self, mine: OperatorWriteSpec, release: Release) -> None:
        """Raise InvalidOption, UnsupportedSnapshot if entries of a state that stays cannot be changed as planned."""
        for state_id, one, name in self._copied():
            one._entry_changes(name, state_id, mine, release)
            one._row_changes(name)
            one.type_change(name)
            one.partner_numbers(name, state_id)
            one.frame_sums(name, state_id)

    @property
    def declared_states(self) -> list[tuple[str, str]]:
        """Names and kinds of the states that come from rows. Raises InvalidOption."""
        return [(item.declared.name, item.declared.kind.value) for item in self._rows()]

    def raw_copies(self, spec: WriteSpec, index: int) -> RawCopies | None:
        """The keyed states that stay; ``index``: the operator's position in ``spec``. None if all files stay.

        Raises SnapshotError for files that cannot be read.
        """
        mine = spec.operators[index]
        if mine.keyed is None:
            return None
        files = FileOf(spec.state_files, index, mine.parallelism, mine.max_parallelism)
        splits = (
            split
            for state_id, one, name in self._copied()
            for split in one._edited_splits(name, state_id, mine, spec.release)
        )
        with located(operator=self.operator.display):
            return RawCopies(tuple(joined(splits)), files)

    def sources(self, spec: WriteSpec, index: int) -> Iterator[Source]:
        """The rows of the states that come from DataFrames; ``index``: the operator's position in ``spec``.

        Raises InvalidOption.
        """
        mine = spec.operators[index]
        if mine.keyed is None:
            return
        files = FileOf(spec.state_files, index, mine.parallelism, mine.max_parallelism)
        classes = self.operator.options.context.classes
        arity = self.operator.options.case_class_arity
        context = LayoutContext(kryo=spec.release.kryo, classes=classes, tail=True, case_class_arity=arity)
        for state_id, given in enumerate(self._rows(), len(list(self._copied()))):
            item = self._hashed(given, mine)
            encoder = self._encoder(item, mine.keyed.key, state_id, mine, context)
            encoding = row_encoding(encoder, files)
            yield Source(item.frame, item.columns, encoding, keyed=True, parallelism=mine.parallelism)

    def _encoder(
        self, rows: KeyedRows, key: Serializer, state_id: int, mine: OperatorWriteSpec, context: LayoutContext
    ) -> Encoder:
        """Return the encoder of a state's rows; a hash function, if there is one, decides on their key groups."""
        function = self._hash_function(by_default=False)
        if not callable(function):
            return row_encoder(rows, key, state_id, mine, function, context)
        if self._confirmed is not function:
            confirm_function(self.operator, self.header, function)
            self._confirmed = function
        grouped = replace(rows, columns={**rows.columns, KEY_GROUP: KEY_GROUP})
        encoder = row_encoder(grouped, key, state_id, mine, None, context)
        return RekeyedEncoder(encoder, rekey(encoder.state, mine.max_parallelism, context, hash_function=function))

    def _hashed(self, rows: KeyedRows, mine: OperatorWriteSpec) -> KeyedRows:
        """Drop the rows' key groups if they follow from keys or a function, or if max parallelism changes."""
        key, function = self.header.key, self.edits.hash_function
        known = key is None or isinstance(key, RowData) or function is not None or key_hash_of(key) is not None
        if KEY_GROUP in rows.columns and (known or mine.max_parallelism != self.operator.max_parallelism):
            return replace(rows, columns={role: name for role, name in rows.columns.items() if role != KEY_GROUP})
        return rows


def _types(change: Change) -> tuple[Serializer, ...]:
    return (change.value,) if change.user_key is None else (change.value, change.user_key)


def _is_read_by(release: Release, handle: KeyedHandle, metadata_version: int) -> bool:
    """Whether a release reads the handle as it is, and the files that it refers to."""
    if first_reading_release(handle) > release:
        return False
    return not _has_tables(handle) or release.reads_tables_of(metadata_version)


def _has_tables(handle: KeyedHandle) -> bool:
    """Whether the handle has files of a RocksDB database, also below a changelog."""
    if isinstance(handle, ChangelogHandle):
        return any(map(_has_tables, handle.materialized))
    return isinstance(handle, IncrementalHandle)
