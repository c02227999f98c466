"""Assign entries to the key groups of another max parallelism.

Only the key at the start of each composite key (in timers, after the timestamp) is decoded; the rest stays bytes.
Source: org.apache.flink.runtime.state.KeyGroupRangeAssignment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec import ops
from stateproc.codec.array_types import Ints
from stateproc.codec.arrow_arrays import RowBytes, numbers_of, row_bytes_of, values_array
from stateproc.codec.builder import Builder
from stateproc.codec.layouts import Layout
from stateproc.codec.layouts.strings import SerializedValue
from stateproc.codec.machine import Machine
from stateproc.errors import InvalidOption, UnsupportedSnapshot, Where, located
from stateproc.keygroups.class_hashes import HASH_FUNCTIONS, SCALA, SCALA_2_12, SCALA_2_13, ClassHash, class_hashes
from stateproc.keygroups.key_group_assignment import AnyHash, java_hashes, key_hash_of
from stateproc.keygroups.key_group_pruning import hash_alternatives
from stateproc.keygroups.key_hash import KeyHash
from stateproc.keygroups.ranges import key_group_of_hash
from stateproc.model.operator import Operator
from stateproc.model.operator_context import OperatorContext
from stateproc.readers.error_context import placed
from stateproc.readers.row_schema import KEY_GROUP
from stateproc.readers.state_descriptor import StateDescriptor
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.flinkx.scala_api import has_scala_api
from stateproc.serializers.java.structs import RowOf
from stateproc.serializers.scala import CaseClass
from stateproc.serializers.table.serializers import RowData
from stateproc.writers.bootstrap.keyed_encoder import RowEncoder
from stateproc.writers.rewrite.merged_header import MergedHeader
from stateproc.writers.rewrite.raw_copy import carried_splits

HashCodes = Callable[[pa.Array], pa.Array]
"""The hash codes (int32) of decoded keys, as their class's ``hashCode`` gives them."""
_TIMESTAMP = 8
_WITH_KIND = "_with_kind"
_NO_BYTES = RowBytes(np.empty(0, np.uint8), np.zeros(1, np.int64))
WRONG_HASH_ADVICE = (
    "name the hashCode method of the keys' class: hash_function='Objects.hash' (--hash-function UID=NAME), or another "
    f"of {HASH_FUNCTIONS}, with the fields in the method's order (record:name,count), or in Python a function of the "
    "keys that returns their hash codes; or keep the max parallelism"
)


@dataclass(frozen=True)
class HashCheck:
    """Confirms hash codes by the key groups that the source has keys in.

    Attributes:
        max_parallelism: The source's number of key groups.
        operator: The operator as messages name it.
        rule: How the keys are hashed, for messages.
        alternatives: Further hashes that the source may have placed keys by: of a Row those of earlier releases.
    """

    max_parallelism: int
    operator: str | None
    rule: str
    alternatives: tuple[KeyHash, ...] = ()

    def fits(self, codes: Sequence[Ints], stored: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether each key is in the key group of one of its hash codes."""
        found = np.zeros(len(stored), dtype=np.bool_)
        for each in codes:
            found |= key_group_of_hash(each, self.max_parallelism) == stored
        return found

    def error(self, fitting: int, total: int, state: str) -> InvalidOption:
        """Return the error of entries of a state, of which not all fit."""
        return InvalidOption(
            f"{fitting} of {total} entries fit: {self.rule} gives {total - fitting} of them another key group than the "
            "one that they are in, so Flink would not find their keys",
            where=Where(operator=self.operator, state=state),
            advice=WRONG_HASH_ADVICE,
        )


@dataclass(frozen=True)
class Rekey:
    """Gives entries of one state the key groups of another max parallelism. Picklable if ``codes`` is; see `rekey`.

    ``check``: confirms each hash by the key group that the entry is in; None for entries that have none yet.
    """

    state: StateDescriptor
    max_parallelism: int
    context: LayoutContext
    hash: AnyHash | None
    codes: HashCodes | None = None
    check: HashCheck | None = None

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The entries (RAW_ENTRIES) with other key groups; they are no longer in order.

        Raises CorruptSnapshot; InvalidOption where the key groups that entries are in do not confirm their hashes.
        """
        check = self.check
        fitting = total = 0
        for batch, keys in self.decoded(batches):
            codes = self._hashes(keys)
            if check is not None:
                others = [
                    java_hashes(self._hashed(keys, kind), _NO_BYTES, self.state.key, kind, None)
                    for kind in check.alternatives
                ]
                stored = numbers_of(batch.column(KEY_GROUP)).astype(np.int32, copy=False)
                fitting += int(np.count_nonzero(check.fits([codes, *others], stored)))
                total += len(batch)
                if fitting < total:
                    continue  # Nothing is written; the rest is counted for the message.
            groups = key_group_of_hash(codes, self.max_parallelism)
            yield batch.set_column(batch.schema.get_field_index(KEY_GROUP), KEY_GROUP, values_array(groups))
        if check is not None and fitting < total:
            raise check.error(fitting, total, self.state.name)

    def decoded(
        self, batches: Iterable[pa.RecordBatch], *, serialized: bool | None = None
    ) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """Yield each batch with its keys.

        Args:
            batches: Entries (RAW_ENTRIES).
            serialized: Whether keys are their bytes, not values of the layout; None for what their hash is over.

        Raises:
            CorruptSnapshot: A key cannot be decoded.
        """
        machine, assemble = self._program(self._of_bytes if serialized is None else serialized)
        for batch in batches:
            keys = row_bytes_of(batch.column("key"))
            starts, ends = keys.offsets[:-1][None, :], keys.offsets[1:][None, :]
            parts: list[pa.Array] = []
            done = 0
            with placed("<raw entries>", int, self.state.name):
                while done < len(keys):
                    done = machine.run(keys.data, starts, ends, done, len(keys))
                    parts.append(assemble(machine.decoded()))
            if parts:
                yield batch, parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
            else:
                yield batch, pa.nulls(0, self.layout.arrow_type)

    @property
    def layout(self) -> Layout:
        """The layout of keys."""
        return self.state.key.layout(self.context)

    def _program(self, serialized: bool) -> tuple[Machine, Callable[..., pa.Array]]:
        b = Builder()
        if self.state.kind.is_queue:
            b.op(ops.SKIP, _TIMESTAMP)
        layout = self.layout
        assemble = (SerializedValue(layout) if serialized else layout).emit(b, False)
        b.op(ops.SKIP_REST)
        b.op(ops.ROW_END)
        return Machine(b.build()), assemble

    @property
    def _of_bytes(self) -> bool:
        """Whether the hash is that of a key's bytes, as it is of SQL rows."""
        return isinstance(self.state.key, RowData) and self.codes is None

    def _hashes(self, keys: pa.Array) -> Ints:
        pieces = row_bytes_of(keys) if self._of_bytes and len(keys) else _NO_BYTES
        codes = None if self.codes is None else _codes(self.codes(keys), len(keys))
        return java_hashes(self._hashed(keys, self.hash), pieces, self.state.key, self.hash, codes)

    def _hashed(self, keys: pa.Array, kind: AnyHash | None) -> pa.Array:
        return _kind_first(keys) if isinstance(kind, KeyHash) and kind.kind.endswith(_WITH_KIND) else keys


@dataclass(frozen=True)
class RekeyedEncoder:
    """Encodes rows as entries in the key groups of ``rekey``, which overrides those of the rows."""

    encoder: RowEncoder
    rekey: Rekey

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return raw entries (RAW_ENTRIES), in the order of rows. Raises InvalidRows, InvalidOption."""
        none = values_array(np.zeros(batch.num_rows, dtype=np.int32))
        (entries,) = self.rekey.batches([self.encoder.encode(batch.append_column(KEY_GROUP, none))])
        return entries


def _codes(result: Any, n: int) -> pa.Array:
    """What a user's function gave for ``n`` keys, if they are hash codes. Raises InvalidOption."""
    whole = isinstance(result, pa.Array) and pa.types.is_integer(result.type)
    if not whole or len(result) != n or result.null_count or (result.type != pa.int32() and not _are_ints(result)):
        shown = f"{len(result)} of {result.type}" if isinstance(result, pa.Array) else type(result).__name__
        raise InvalidOption(
            f"the hash function gave no hash codes for {n} keys: {shown}",
            advice="it gets an Arrow array of keys, and returns one of int32 with as many items, none of them null",
        )
    return result


def _are_ints(codes: pa.Array) -> bool:
    least, most = pc.min_max(codes).as_py().values()
    return least is None or (least >= -(2**31) and most < 2**31)


def _kind_first(rows: pa.StructArray) -> pa.StructArray:
    """Rows with their RowKind, which is decoded as the last field, in front, where their hash has it."""
    *fields, kind = rows.flatten()
    names = [str(index) for index in range(len(fields) + 1)]
    return pa.StructArray.from_arrays([kind, *fields], names)


def rekey(
    state: StateDescriptor,
    max_parallelism: int,
    context: LayoutContext,
    *,
    hash_function: str | ClassHash | HashCodes | None = None,
    operator: str | None = None,
    source: OperatorContext | None = None,
) -> Rekey:
    """Return what assigns the entries of ``state`` to the key groups of ``max_parallelism``.

    hash_function: for keys whose hashCode is their class's own (POJOs, case classes): a name that `key_hash_of` knows,
    the formula that was chosen for it, or a function of the decoded keys (an Arrow array, dates and times as ISO texts)
    that returns their hash codes as int32. source: the operator that entries come from, whose key groups confirm the
    hash; None for
    entries without. Raises InvalidOption where the hash does not follow from the bytes and none is given; Undecodable
    where the layout of keys is unknown.
    """
    with_kind = isinstance(state.key, RowOf) and state.key.has_kind
    context = replace(context.inner, temporal="exact", row_kind=with_kind)
    state.key.layout(context)
    if callable(hash_function):
        check = None if source is None else HashCheck(source.max_parallelism, operator, "the hash function")
        return Rekey(state, max_parallelism, context, None, hash_function, check)
    found: AnyHash | None = hash_function if isinstance(hash_function, ClassHash) else None
    if not isinstance(hash_function, ClassHash):
        found = key_hash_of(state.key, hash_function, context)
    if found is None and not isinstance(state.key, RowData):
        raise InvalidOption(
            f"keys of the type {state.key.type_name} have a hashCode that does not follow from their bytes, so "
            f"their key groups for max parallelism {max_parallelism} are not known",
            where=Where(operator=operator, state=state.name),
            advice=WRONG_HASH_ADVICE,
        )
    check = None
    if source is not None:
        named = hash_function.name if isinstance(hash_function, ClassHash) else hash_function
        rule = named or f"the hashCode of {state.key.type_name}"
        others = () if not isinstance(found, KeyHash) else _other_hashes(state, found, source.metadata_version)
        check = HashCheck(source.max_parallelism, operator, rule, others)
    if isinstance(found, KeyHash) and with_kind:
        found = replace(found, kind=found.kind + _WITH_KIND)
    return Rekey(state, max_parallelism, context, found, None, check)


def _other_hashes(state: StateDescriptor, kind: KeyHash, metadata_version: int) -> tuple[KeyHash, ...]:
    """The hashes of keys in the releases that may have written the source; new key groups are those of today's."""
    if not isinstance(state.key, RowOf):
        return ()
    kinds = [found for found, _ in hash_alternatives(state.key, kind, metadata_version) if found.kind != kind.kind]
    return tuple(replace(one, kind=one.kind + _WITH_KIND) if state.key.has_kind else one for one in kinds)


def rekeyed(
    batches: Iterable[pa.RecordBatch],
    state: StateDescriptor,
    max_parallelism: int,
    context: LayoutContext,
    *,
    hash_function: str | HashCodes | None = None,
) -> Iterator[pa.RecordBatch]:
    """The entries of ``state`` with the key groups of ``max_parallelism``; see `rekey`."""
    yield from rekey(state, max_parallelism, context, hash_function=hash_function).batches(batches)


# Choose the formula of the hash codes of an operator's keys: the one that the keys at hand confirm.
#
# A key is in the key group murmur(hash code) mod max parallelism of the operator that wrote it, so a formula that gives
# any key another key group is not the one of its class. A name may stand for several formulas
# (Scala's differ by release).

_ENTRIES_OF_A_STATE = 20_000
"""So many entries of each state are looked at to choose; a write confirms all."""


@dataclass(frozen=True)
class HashChoice:
    """The formula that was chosen.

    Attributes:
        hash: The formula.
        entries: How many entries it was confirmed by.
        max_parallelism: The source's number of key groups; 1 confirms nothing.
    """

    hash: ClassHash
    entries: int
    max_parallelism: int

    def note(self, operator: str) -> str:
        """Return what a plan says of it."""
        name = self.hash.name
        if not self.entries:
            return f"{operator}: keys are hashed by {name}; there is no entry that could confirm it"
        if self.max_parallelism == 1:
            return f"{operator}: keys are hashed by {name}; one key group confirms nothing: be sure that it is right"
        seen = f"all {self.entries:,} entries looked at"
        return f"{operator}: keys are hashed by {name}, which the key groups of {seen} confirm"


def default_hash_name(key: Serializer | None) -> str | None:
    """Return the formula of keys whose serializer names it: Scala's case classes and tuples."""
    return SCALA if isinstance(key, CaseClass) else None


def choose_hash(operator: Operator, header: MergedHeader, named: str) -> HashChoice:
    """Return the formula that fits the keys of all keyed states. Some keys of each state are read.

    Raises:
        InvalidOption: No formula of that name fits all keys, or several do; there is no such name, or no such field.
        SnapshotError: Entries cannot be read.
    """
    context = replace(operator.options.context.inner, temporal="exact")
    key = header.key
    assert key is not None
    with located(InvalidOption, operator=operator.display):
        candidates = class_hashes(key, named, context)
    fitting, total, digests = _fitting(operator, header, candidates)
    # Formulas that give all keys the same hash codes are one.
    fits = {digest: at for at, digest in enumerate(digests) if fitting[at] == total}
    left = [candidates[at] for at in sorted(fits.values())]
    where = Where(operator=operator.display)
    if not left:
        most = max(fitting)
        tried = ", ".join(f"{one.name} fits {number}" for one, number in zip(candidates, fitting, strict=True))
        raise InvalidOption(
            f"{most} of {total} entries fit: {named} gives the others another key group than the one that they are in, "
            f"so Flink would not find them (tried: {tried})",
            where=where,
            advice=WRONG_HASH_ADVICE,
        )
    if len(left) > 1 and total:
        names = dict.fromkeys(one.name for one in left)
        raise InvalidOption(
            f"{len(left)} formulas of {named} fit all {total} entries, so the right one is not known",
            where=where,
            advice=f"name the one of the job: {' or '.join(names)}"
            if len(names) > 1
            else "in Python, give a function of the keys that returns their hash codes, or keep the max parallelism",
        )
    return HashChoice(left[0], total, operator.max_parallelism)


def confirm_function(operator: Operator, header: MergedHeader, function: HashCodes) -> None:
    """Raise InvalidOption if a user's function gives keys at the source other key groups; reads some of each state."""
    for name in header.names:
        check = rekey(
            header.keyed(name, 0),
            operator.max_parallelism,
            operator.options.context,
            hash_function=function,
            operator=operator.display,
            source=operator.context,
        )
        for split in carried_splits(operator, name, 0)[:1]:
            for _ in check.batches(split.read()):
                pass


def _fitting(
    operator: Operator, header: MergedHeader, candidates: Sequence[ClassHash]
) -> tuple[list[int], int, list[bytes]]:
    """Count the entries that fit each formula, and all that were looked at; digest the hash codes of each formula."""
    fitting, total, digests = [0] * len(candidates), 0, [hashlib.sha256() for _ in candidates]
    context = replace(operator.options.context.inner, temporal="exact")
    for name in header.names:
        keys_of = Rekey(header.keyed(name, 0), operator.max_parallelism, context, None)
        seen = 0
        for split in carried_splits(operator, name, 0):
            for batch, keys in keys_of.decoded(split.read()):
                stored = numbers_of(batch.column(KEY_GROUP)).astype(np.int32, copy=False)
                for at, one in enumerate(candidates):
                    codes = one.codes(keys)
                    digests[at].update(codes.tobytes())
                    groups = key_group_of_hash(codes, operator.max_parallelism)
                    fitting[at] += int(np.count_nonzero(groups == stored))
                seen += len(batch)
                if seen >= _ENTRIES_OF_A_STATE:
                    break
            if seen >= _ENTRIES_OF_A_STATE:
                break
        total += seen
    return fitting, total, [digest.digest() for digest in digests]


# Give keys that are Scala case classes the key groups of their hash codes in Scala 2.13.
#
# Flink's Scala API is of Scala 2.12, flink-scala-api for Flink 2 of 2.13 and 3, where the name of a case class is part
# of its hash code: a job finds such a key in another key group than the one that the old job kept it in.


@dataclass(frozen=True)
class Regrouping:
    """Confirms that entries are in the key groups of the old hash codes, and gives them those of the new ones."""

    confirming: Rekey
    assigning: Rekey

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield entries (RAW_ENTRIES), no longer in order. Raises CorruptSnapshot, InvalidOption."""
        own = self.confirming
        for batch in batches:
            for _ in own.batches([batch]):
                pass
            yield from self.assigning.batches([batch])


@dataclass(frozen=True)
class KeyHashes:
    """The hash codes of an operator's keys in Scala 2.12 and in 2.13."""

    old: ClassHash | str | HashCodes
    new: ClassHash | str | HashCodes

    def of(self, state: StateDescriptor, operator: Operator, max_parallelism: int) -> Regrouping:
        """Return what gives entries of a state their new key groups. Raises InvalidOption, Undecodable."""
        context = operator.options.context
        confirming = rekey(
            state,
            operator.max_parallelism,
            context,
            hash_function=self.old,
            operator=operator.display,
            source=operator.context,
        )
        return Regrouping(confirming, rekey(state, max_parallelism, context, hash_function=self.new))


def key_hashes(operator: Operator, header: MergedHeader, given: str | HashCodes | None) -> KeyHashes | None:
    """Return the hash codes of keys if they differ between releases of Scala; None if keys are no types of Scala.

    Some entries of each state are read. ``given``: what the user says of them: of a class with a hashCode of its own it
    is the same in both, and has to be that of the key groups in the snapshot.

    Raises:
        UnsupportedSnapshot: The hash code of keys of this type in Scala 2.13 is not known, or keys are not in the key
            groups that Scala 2.12 gives.
    """
    key = header.key
    if key is None or not has_scala_api(key):
        return None
    where = Where(operator=operator.display)
    if not isinstance(key, CaseClass):
        raise UnsupportedSnapshot(
            f"keys of the type {key.type_name}: their key groups in Scala 2.13 are not known",
            where=where,
            advice="key the job by a case class, a tuple or a simple type, and write the operator anew from rows "
            "(with_operator), or leave it out (remove_operator)",
        )
    if given is not None and given not in (SCALA, SCALA_2_12, SCALA_2_13):
        return KeyHashes(given, given)
    context = replace(operator.options.context.inner, temporal="exact")
    try:
        choose_hash(operator, header, SCALA_2_12)
        return KeyHashes(class_hashes(key, SCALA_2_12, context)[0], class_hashes(key, SCALA_2_13, context)[0])
    except InvalidOption as error:
        raise UnsupportedSnapshot(
            f"keys of the type {key.type_name} get other key groups in Scala 2.13, and which ones is not known: "
            f"{error.message}",
            where=where,
            advice="if the class has a hashCode of its own, give it in Python (with_hash_function); or write the "
            "operator anew from rows (with_operator), or leave it out (remove_operator)",
        ) from error


def regrouping_words(operator: str, hashes: KeyHashes) -> str:
    """Return what a plan says of an operator's keys."""
    if hashes.old is hashes.new:
        return f"{operator}: keys keep their key groups, which the given hash function has to confirm"
    return f"{operator}: keys get the key groups of their hash codes in Scala 2.13, which are others than in 2.12"
