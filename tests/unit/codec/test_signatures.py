"""Signatures of exported kernels from their annotations, and calls of machine code with a block of words."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from stateproc.codec import array_types
from stateproc.codec.array_types import Flags, Ints, LongTable
from stateproc.codec.native.jit import ARRAY_TYPES, ArrayType, Signature, check_array, native_call, signature_of


def _nothing(at: int, wide: bool) -> None: ...


def _one(table: LongTable, n: int) -> int: ...  # type: ignore[empty-body]


def _three(flags: Flags, numbers: Ints) -> tuple[int, bool, int]: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("function", "expected", "words"),
    [
        (_nothing, Signature((int, bool), (), False), 2),
        (_one, Signature((ArrayType("int64", 2), int), (int,), False), 4),
        (_three, Signature((ArrayType("bool", 1), ArrayType("int32", 1)), (int, bool, int), True), 4),
    ],
)
def test_annotations_are_the_types(function: Any, expected: Signature, words: int) -> None:
    assert signature_of(function) == expected
    assert expected.words == words


def _unknown(at: Any) -> None: ...


def _no_annotation(at) -> None:  # type: ignore[no-untyped-def]
    ...


def _text(at: int) -> str: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_unknown, "_unknown: at is annotated Any, not one of int, bool, Bytes, Flags, Ints, Longs, LongTable, Words"),
        (_no_annotation, "_no_annotation: at is annotated None, not one of int, bool, "),
        (_text, "_text: an exported kernel cannot return str"),
    ],
)
def test_other_annotations_are_refused(function: Any, message: str) -> None:
    with pytest.raises(TypeError) as failure:
        signature_of(function)
    assert str(failure.value).startswith(message)


def test_every_array_type_is_declared_for_the_type_checker() -> None:
    assert {name: getattr(array_types, name) for name in ARRAY_TYPES} == {
        name: npt.NDArray[np.dtype(kind.dtype).type]  # type: ignore[misc]
        for name, kind in ARRAY_TYPES.items()
    }


_ROWS = np.arange(12, dtype=np.int64).reshape(3, 4)


@pytest.mark.parametrize(
    "array",
    [_ROWS[0].astype(np.int32), _ROWS, _ROWS[:, 1], [1, 2], None, _ROWS[0].astype(">i8"), _ROWS[0, ::2]],
    ids=["dtype", "dimensions", "strides", "list", "None", "byte order", "every other"],
)
def test_an_array_of_another_form_is_refused(array: Any) -> None:
    with pytest.raises(TypeError, match=r"^copy: int64 in 1 dimensions, C order, is required, not "):
        check_array(array, ArrayType("int64", 1), "copy")


def test_arguments_become_words_and_words_results() -> None:
    seen: list[list[int]] = []

    def entry(block: Any) -> int:
        words = np.ctypeslib.as_array((ctypes.c_int64 * 5).from_buffer(block))
        seen.append(words.tolist())
        words[:3] = 7, 1, -1
        return 0

    signature = Signature((int, bool, ArrayType("int64", 2)), (int, bool, int), True)
    assert native_call("kernel", signature, entry)(np.int64(-5), True, _ROWS) == (7, True, -1)
    assert seen == [[-5, 1, _ROWS.ctypes.data, 3, 4]]
    assert native_call("kernel", Signature((int,) * 5, (int,), False), entry)(1, 2, 3, 4, 5) == 7
    assert native_call("kernel", Signature((int,) * 5, (), False), entry)(1, 2, 3, 4, 5) is None


def test_a_status_of_machine_code_is_an_error() -> None:
    with pytest.raises(ArithmeticError, match="kernel divide failed with status -1"):
        native_call("divide", Signature((int,), (int,), False), lambda _block: -1)(1)


@pytest.mark.parametrize("arguments", [(), (1,), (_ROWS[0], 1), (1.5, _ROWS[0]), (1, _ROWS[0], 2), (1 << 63, _ROWS[0])])
def test_wrong_arguments_are_refused(arguments: tuple[Any, ...]) -> None:
    call = native_call("kernel", Signature((int, ArrayType("int64", 1)), (), False), lambda _block: 0)
    with pytest.raises((TypeError, ValueError, struct.error)):
        call(*arguments)
