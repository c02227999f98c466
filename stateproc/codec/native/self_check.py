"""Call kernels with built-in values, to find out whether a library answers on this machine as it must.

Some of each kind: hashes of arrays, text, numbers in both byte orders, decompression, and the decode VM. All together
take a quarter of a millisecond, so that every process does it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stateproc.codec import ops

Call = Callable[..., int]
"""``call(symbol, *arguments)``: runs an exported kernel with integers and arrays; returns its first result, if any."""

_TEXT = "stateproc Ä€😀".encode()
_WORDS = 9
"""Bytes of the first word of the text."""


def wrong_kernel(call: Call) -> str | None:
    """Return the symbol of the first kernel whose answer is wrong; None if all are right."""
    return next((symbol for symbol, is_right in _CHECKS.items() if not is_right(call, f"stateproc__{symbol}")), None)


def _hashes(expected: list[int]) -> Callable[[Call, str], bool]:
    def is_right(call: Call, symbol: str) -> bool:
        hashes = np.zeros(2, dtype=np.int32)
        call(symbol, np.array([0, _WORDS, len(_TEXT)]), np.frombuffer(_TEXT, dtype=np.uint8), hashes)
        return bool(hashes.tolist() == expected)

    return is_right


def _writes_big_endian(call: Call, symbol: str) -> bool:
    numbers, written = np.array([1, -2]), np.zeros(16, dtype=np.uint8)
    at = _address(written) + np.array([0, 8])
    call(symbol, _address(numbers), 8, True, _address(at), 2)
    return written.tobytes() == bytes.fromhex("0000000000000001fffffffffffffffe")


def _writes_varints(call: Call, symbol: str) -> bool:
    numbers, written = np.array([300, 1 << 40]), np.zeros(16, dtype=np.uint8)
    at = _address(written) + np.array([0, 8])
    call(symbol, _address(numbers), _address(at), 2)
    ends = (at - _address(written)).tolist()
    return written.tobytes() == bytes.fromhex("ac020000000000008080808080200000") and ends == [2, 14]


def _decompresses(call: Call, symbol: str) -> bool:
    stored = np.frombuffer(bytes.fromhex("2e3c7374617465206f6620466c696e6b2c20761000"), dtype=np.uint8)
    plain = b"state of Flink, state of Flink, state of Flink"
    written = np.zeros(len(plain), dtype=np.uint8)
    zero = np.zeros(1, dtype=np.int64)
    spans = (zero, np.array([len(stored)]), _address(written), zero, np.array([len(plain)]))
    damaged = call(symbol, _address(stored), np.array([True]), *spans)
    return damaged == -1 and written.tobytes() == plain


def _decodes(call: Call, symbol: str) -> bool:
    """Two rows of a big-endian long and a string of StringValue."""
    program = np.array([ops.F8, 0, ops.FLINK_STRING, 1, 2, 1, ops.ROW_END], dtype=np.int32)
    source = np.frombuffer(bytes.fromhex("01020304050607080461e9017a") + bytes([0] * 7 + [2, 1]), dtype=np.uint8)
    starts, ends, nothing = np.array([0, 13]), np.array([13, 22]), np.zeros(1, dtype=np.int64)
    content = np.zeros((3, 64), dtype=np.uint8)
    columns = np.array([[_address(column), 0, len(column)] for column in content])
    saved, stack = np.zeros(3, dtype=np.int64), np.zeros(ops.STACK_WORDS, dtype=np.int64)
    registers = np.zeros(ops.REGISTERS, dtype=np.int64)
    spans = (_address(starts), 16, _address(ends), 16, 2, False)
    state = (_address(columns), 3, *map(_address, (saved, registers, stack, nothing)))
    outcome = call(symbol, *map(_address, (program, nothing, nothing, source)), *spans, *state)
    numbers, lengths, text = (column[:used].tobytes() for column, used in zip(content, columns[:, 1], strict=True))
    return outcome == ops.DONE and (numbers, lengths, text) == (
        bytes.fromhex("08070605040302010200000000000000"),
        bytes.fromhex("0400000000000000"),
        "aéz".encode(),
    )


def _address(array: Any) -> int:
    return int(array.ctypes.data)


_CHECKS: dict[str, Callable[[Call, str], bool]] = {
    "keygroups__kernels__murmur3_hashes": _hashes([1535133216, -1126364451]),
    "keygroups__kernels__utf16_hashes": _hashes([-2085046425, 45202411]),
    "codec__encoding__kernels__put_numbers": _writes_big_endian,
    "codec__encoding__kernels__put_varints": _writes_varints,
    "readers__rocksdb__compression__decompress_snappy": _decompresses,
    "codec__vm__dispatch__run": _decodes,
}
