"""Give keys that are Scala case classes the key groups of their hash codes in Scala 2.13.

Flink's Scala API is of Scala 2.12, flink-scala-api for Flink 2 of 2.13 and 3, where the name of a case class is part of
its hash code: a job finds such a key in another key group than the one that the old job kept it in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from stateproc.errors import InvalidOption, UnsupportedSnapshot, Where
from stateproc.keygroups.class_hashes import SCALA, SCALA_2_12, SCALA_2_13, ClassHash, class_hashes
from stateproc.model.operator import Operator
from stateproc.readers.state_descriptor import StateDescriptor
from stateproc.serializers.flinkx.scala_api import has_scala_api
from stateproc.serializers.scala import CaseClass
from stateproc.writers.rewrite.merged_header import MergedHeader
from stateproc.writers.rewrite.rekey import HashCodes, Rekey, choose_hash, rekey


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


def words(operator: str, hashes: KeyHashes) -> str:
    """Return what a plan says of an operator's keys."""
    if hashes.old is hashes.new:
        return f"{operator}: keys keep their key groups, which the given hash function has to confirm"
    return f"{operator}: keys get the key groups of their hash codes in Scala 2.13, which are others than in 2.12"
