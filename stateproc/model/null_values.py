"""Read states that cannot be decoded as null, and say so once: ``on_error='null'``."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.arrow_arrays import booleans_of, values_array
from stateproc.errors import SnapshotError, UnreadableStateWarning
from stateproc.readers.read_options import ReadOptions
from stateproc.readers.row_schema import RAW_KEY
from stateproc.readers.splits import KeyedSplit, read_keys

_MOST_REASONS = 10


@dataclass(frozen=True)
class NullSplit:
    """The keys and namespaces of a state whose values cannot be decoded, each once, with ``raw_key``.

    Attributes:
        entries: A split of the state; its files store the length of each entry.
    """

    entries: KeyedSplit

    @property
    def bytes(self) -> int:
        return self.entries.bytes

    @property
    def key_groups(self) -> tuple[int, ...]:
        return self.entries.key_groups

    @property
    def namespace_first(self) -> bool:
        return self.entries.namespace_first

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the keys. The entries of one map are neighbours, so equal neighbours are one row."""
        last: pa.Scalar | None = None
        for batch in read_keys(self.entries):
            raw = batch.column(RAW_KEY)
            if not len(raw):
                continue
            is_new = np.ones(len(raw), dtype=np.bool_)
            is_new[1:] = booleans_of(pc.not_equal(raw[1:], raw[:-1]))
            is_new[0] = raw[0] != last
            last = raw[len(raw) - 1]
            yield batch.filter(values_array(is_new))


def warn_of_nulls(operator: str, errors: Mapping[str, SnapshotError], without_keys: Collection[str] = ()) -> None:
    """Warn once that states are null, or that rows are missing.

    Args:
        operator: The operator as messages name it.
        errors: The states that are null → why they cannot be decoded.
        without_keys: States of which not even the keys can be read.
    """
    lines = []
    if errors:
        lines.append(f"null because {'it' if len(errors) == 1 else 'they'} cannot be decoded: {_listed(errors)}")
        lines += [f"  '{name}': {error.message}" for name, error in list(errors.items())[:_MOST_REASONS]]
        if len(errors) > _MOST_REASONS:
            lines.append(f"  … the catalog of states (problem) has the other {len(errors) - _MOST_REASONS} reasons")
    if without_keys:
        which = "they" if set(without_keys) == set(errors) else _listed(without_keys)
        lines.append(f"rows are missing of keys that only {which} would have, because not even the keys can be read")
    warnings.warn(f"operator '{operator}': " + "\n".join(lines), UnreadableStateWarning, stacklevel=2)


def _listed(names: Collection[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def with_choices(error: SnapshotError, options: ReadOptions, *, lengths: bool, canonical: bool = True) -> SnapshotError:
    """Return the error of a state that cannot be decoded, with the options that read it nevertheless.

    Args:
        options: The options that were given, which are not advised again.
        lengths: Whether the state's files store the length of each entry.
        canonical: Whether canonical savepoints do.
    """
    choices = [error.advice] if error.advice else []
    if lengths:
        as_bytes = "as bytes (opaque='bytes')" if options.opaque != "bytes" else ""
        as_null = "as null (on_error='null')" if options.on_error != "null" else ""
        if as_bytes or as_null:
            choices.append("read it " + " or ".join(filter(None, (as_bytes, as_null))))
    elif canonical:
        choices.append("take a canonical savepoint, where opaque='bytes' reads its bytes")
    return type(error)(error.message, where=error.where, advice="; or ".join(choices) or None)
