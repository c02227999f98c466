"""Operator ids: what `uid("…")` becomes in `_metadata` (StreamGraphHasherV2, Guava's murmur3_128)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stateproc.errors import InvalidOption

_LEAST_DIGITS = 4
"""Hex digits that the beginning of a uid hash has at least."""
_MASK = (1 << 64) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


def operator_id(uid: str) -> str:
    """The operator id of a uid: 32 hex digits in the byte order of `_metadata` and Flink's log output."""
    return murmur3_x64_128(uid.encode("utf-8", "replace")).hex()


def matching_operator_id(uid_or_hash: str, ids: Iterable[str]) -> str | None:
    """Find an operator by its uid, its id, or the beginning of its id.

    Args:
        uid_or_hash: A uid, 32 hex digits, or at least four hex digits with which one id begins.

    Returns:
        The id; None if there is none.

    Raises:
        InvalidOption: Several ids begin with these digits; the advice lists them.
    """
    known = list(ids)
    for wanted in (uid_or_hash.lower(), operator_id(uid_or_hash)):
        if wanted in known:
            return wanted
    if not re.fullmatch(rf"[0-9a-fA-F]{{{_LEAST_DIGITS},31}}", uid_or_hash):
        return None
    found = [item for item in known if item.startswith(uid_or_hash.lower())]
    if len(found) > 1:
        raise InvalidOption(
            f"{len(found)} uid hashes begin with {uid_or_hash!r}", advice=f"give more digits: {', '.join(found)}"
        )
    return found[0] if found else None


def murmur3_x64_128(data: bytes) -> bytes:
    """MurmurHash3_x64_128 with seed 0: both halves little-endian."""
    h1 = h2 = 0
    whole = len(data) - len(data) % 16
    for at in range(0, whole, 16):
        h1 ^= _mix_first(int.from_bytes(data[at : at + 8], "little"))
        h1 = ((_rotate_left(h1, 27) + h2) * 5 + 0x52DCE729) & _MASK
        h2 ^= _mix_second(int.from_bytes(data[at + 8 : at + 16], "little"))
        h2 = ((_rotate_left(h2, 31) + h1) * 5 + 0x38495AB5) & _MASK
    # A missing half counts as 0, which mixes to 0.
    h1 ^= _mix_first(int.from_bytes(data[whole : whole + 8], "little"))
    h2 ^= _mix_second(int.from_bytes(data[whole + 8 :], "little"))

    h1 ^= len(data)
    h2 ^= len(data)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    h1, h2 = _finish(h1), _finish(h2)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    return h1.to_bytes(8, "little") + h2.to_bytes(8, "little")


def _mix_first(k: int) -> int:
    return _rotate_left(k * _C1 & _MASK, 31) * _C2 & _MASK


def _mix_second(k: int) -> int:
    return _rotate_left(k * _C2 & _MASK, 33) * _C1 & _MASK


def _finish(h: int) -> int:
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & _MASK
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return h ^ h >> 33


def _rotate_left(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK
