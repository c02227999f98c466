"""Key groups of hash codes, and which subtask owns which (KeyGroupRangeAssignment, MathUtils)."""

from __future__ import annotations

from typing import overload

import numpy as np
from numpy.typing import NDArray

from stateproc.codec.array_types import Ints
from stateproc.errors import InvalidOption
from stateproc.wire.output import MAX_KEY_GROUPS

_DEFAULT_MAX_PARALLELISM = 1 << 7
_INT_MIN = np.int32(-(1 << 31))


@overload
def key_group_of_hash(hash_codes: int, max_parallelism: int) -> int: ...
@overload
def key_group_of_hash(hash_codes: Ints, max_parallelism: int) -> Ints: ...
def key_group_of_hash(hash_codes: Ints | int, max_parallelism: int) -> Ints | int:
    """Key group of each Java hash code; an int gives an int.

    KeyGroupRangeAssignment.computeKeyGroupForKeyHash. Raises InvalidOption for an impossible max parallelism.
    """
    check_max_parallelism(max_parallelism)
    if isinstance(hash_codes, int):
        return int(_murmur(np.array([hash_codes & 0xFFFFFFFF], dtype=np.uint32))[0] % max_parallelism)
    spread = _murmur(np.ascontiguousarray(hash_codes, dtype=np.int32).view(np.uint32))
    groups: Ints = np.remainder(spread, np.int32(max_parallelism))
    return groups


def _murmur(code: NDArray[np.uint32]) -> Ints:
    """MathUtils.murmurHash: murmur3 of one int, made non-negative."""
    code = _rotate_left(code * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    code = _rotate_left(code, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    code = code ^ np.uint32(4)
    code = (code ^ (code >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    code = (code ^ (code >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    signed = (code ^ (code >> np.uint32(16))).view(np.int32)
    # Java's -MIN_VALUE is MIN_VALUE again, so Flink maps it to 0.
    spread: Ints = np.where(signed == _INT_MIN, np.int32(0), np.abs(signed))
    return spread


def _rotate_left(code: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    rotated: NDArray[np.uint32] = (code << np.uint32(bits)) | (code >> np.uint32(32 - bits))
    return rotated


def key_group_range(max_parallelism: int, parallelism: int, subtask: int) -> range:
    """Key groups of one subtask (KeyGroupRangeAssignment.computeKeyGroupRangeForOperatorIndex).

    Raises InvalidOption if parallelism exceeds max parallelism, or there is no such subtask.
    """
    _check_parallelism(max_parallelism, parallelism)
    if not 0 <= subtask < parallelism:
        raise InvalidOption(f"subtask {subtask} of an operator of parallelism {parallelism}")
    first = (subtask * max_parallelism + parallelism - 1) // parallelism
    last = ((subtask + 1) * max_parallelism - 1) // parallelism
    return range(first, last + 1)


def subtask_of_key_group(max_parallelism: int, parallelism: int, key_group: int) -> int:
    """Subtask that owns a key group (KeyGroupRangeAssignment.computeOperatorIndexForKeyGroup)."""
    _check_parallelism(max_parallelism, parallelism)
    if not 0 <= key_group < max_parallelism:
        raise InvalidOption(f"key group {key_group} with a max parallelism of {max_parallelism}")
    return key_group * parallelism // max_parallelism


def default_max_parallelism(parallelism: int) -> int:
    """Max parallelism that Flink chooses for a parallelism (computeDefaultMaxParallelism)."""
    if not 0 < parallelism <= MAX_KEY_GROUPS:
        raise InvalidOption(f"parallelism {parallelism} is not in 1..{MAX_KEY_GROUPS}")
    rounded_up = 1 << (parallelism + parallelism // 2 - 1).bit_length()
    return min(max(rounded_up, _DEFAULT_MAX_PARALLELISM), MAX_KEY_GROUPS)


def prefix_width(max_parallelism: int) -> int:
    """Bytes of a key's key-group prefix: 1 up to 128 key groups, else 2 (CompositeKeySerializationUtils)."""
    check_max_parallelism(max_parallelism)
    return 1 if max_parallelism <= 128 else 2


def check_max_parallelism(max_parallelism: int) -> None:
    """Raise InvalidOption unless Flink allows this max parallelism."""
    if not isinstance(max_parallelism, int):
        raise InvalidOption(f"max parallelism {max_parallelism!r} is no whole number")
    if not 0 < max_parallelism <= MAX_KEY_GROUPS:
        raise InvalidOption(
            f"max parallelism {max_parallelism} is not in 1..{MAX_KEY_GROUPS}",
            advice="give the job's: env.setMaxParallelism(…), or what Flink derives of the parallelism, 128 at least",
        )


def _check_parallelism(max_parallelism: int, parallelism: int) -> None:
    check_max_parallelism(max_parallelism)
    if not 0 < parallelism <= max_parallelism:
        raise InvalidOption(f"parallelism {parallelism} is not in 1..{max_parallelism}, the max parallelism")
