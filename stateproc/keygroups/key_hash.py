"""KeyHash: which Java hashCode a key type has, as a small tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class KeyHash:
    """How to hash the values of one column as the JVM did.

    ``kind`` is a row of the tables in `stateproc.keygroups.hashes`, ``children`` the parts of a composite,
    ``precision`` and ``scale`` those of a SQL type (only used inside ``rowdata``).
    """

    kind: str
    children: tuple[KeyHash, ...] = ()
    precision: int = 0
    scale: int = 0


# A Java array's own hashCode is its identity; only Row looks into arrays.
_DEEP_ONLY = frozenset({"array"})
_LOOKS_INTO_ARRAYS = frozenset(
    f"{row}{kind}" for row in ("row", "row_1_12", "legacy_row") for kind in ("", "_with_kind")
)
_PASSES_ON = frozenset({"list", "map", "array"})


def composite(kind: str, children: Sequence[KeyHash | None]) -> KeyHash | None:
    """A composite's KeyHash, or None ("cannot prune") when a part has no reproducible hashCode.

    None stands for enums, POJOs, case classes: whatever has a hashCode of the JVM's or the user's own.
    """
    known = tuple(child for child in children if child is not None)
    if len(known) != len(children):
        return None
    return KeyHash(kind, known)


def is_reproducible(kind: KeyHash | None) -> bool:
    """Whether `hash_codes` equals the JVM's hash: an array must be inside a Row, not alone or in a tuple."""
    return kind is not None and _reproducible(kind, inside_row=False)


def _reproducible(kind: KeyHash, *, inside_row: bool) -> bool:
    if kind.kind == "rowdata":
        return True
    if kind.kind in _DEEP_ONLY and not inside_row:
        return False
    deep = kind.kind in _LOOKS_INTO_ARRAYS or (inside_row and kind.kind in _PASSES_ON)
    return all(_reproducible(child, inside_row=deep) for child in kind.children)
