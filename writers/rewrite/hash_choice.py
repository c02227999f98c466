"""Choose the formula of the hash codes of an operator's keys: the one that the keys at hand confirm.

A key is in the key group murmur(hash code) mod max parallelism of the operator that wrote it, so a formula that gives
any key another key group is not the one of its class. A name may stand for several formulas
(Scala's differ by release).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stateproc.codec.arrow_arrays import numbers_of
from stateproc.errors import InvalidOption, Where
from stateproc.keygroups.class_hashes import SCALA, ClassHash, class_hashes
from stateproc.keygroups.ranges import key_group_of_hash
from stateproc.model.operator import Operator
from stateproc.readers.row_schema import KEY_GROUP
from stateproc.serializers import Serializer
from stateproc.serializers.scala import CaseClass
from stateproc.writers.rewrite.merged_header import MergedHeader
from stateproc.writers.rewrite.raw_copy import carried_splits
from stateproc.writers.rewrite.rekey import WRONG_HASH_ADVICE, HashCodes, Rekey, rekey

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
    try:
        candidates = class_hashes(key, named, context)
    except InvalidOption as error:
        raise error.at(operator=operator.display) from error
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
            header.keyed(name, 0), operator.max_parallelism, operator.options.context, hash_function=function,
            operator=operator.display, source=operator.context,
        )  # fmt: skip
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
