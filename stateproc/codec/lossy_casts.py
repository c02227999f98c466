"""Find the values that Arrow's casts change without an error.

Arrow refuses integers out of range, fractions that become integers, and decimals of too many digits. It rounds numbers
that become floats or come from them, and takes any number but 0 for true. A number and a float are the same here if
both have one shortest decimal form: 0.1 is the float 0.1, although no float is a tenth.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.byte_arrays import Unencodable


def refuse_lost(array: pa.Array, cast: pa.Array) -> None:
    """Raise Unencodable for the first value of ``array``, of any nesting, that is another one in ``cast``."""
    found, type_ = array.type, cast.type
    if pa.types.is_struct(found) and pa.types.is_struct(type_):
        for field in type_:
            if found.get_field_index(field.name) >= 0:
                refuse_lost(pc.struct_field(array, field.name), pc.struct_field(cast, field.name))
        return
    if pa.types.is_list(found) and pa.types.is_list(type_):
        try:
            refuse_lost(array.flatten(), cast.flatten())
        except Unencodable as error:
            raise Unencodable(error.message, int(pc.list_parent_indices(array)[error.row].as_py())) from error
        return
    if found == type_ or pa.types.is_nested(found) or pa.types.is_nested(type_):
        return
    lost = _lost(array, cast)
    if lost is not None and pc.any(lost).as_py():
        row = int(pc.index(lost, True).as_py())
        raise Unencodable(f"{array[row]} ({found}) is no {type_}: it would become {cast[row]}", row)


def _lost(array: pa.Array, cast: pa.Array) -> pa.BooleanArray | None:
    """Return which values are others; None for types whose casts are exact or refused."""
    found, type_ = array.type, cast.type
    if pa.types.is_boolean(type_) and _is_number(found):
        return pc.and_(pc.not_equal(array, pa.scalar(0, found)), pc.not_equal(array, pa.scalar(1, found)))
    if pa.types.is_floating(type_):
        if pa.types.is_floating(found):
            return _rounded(array, cast) if type_.bit_width < found.bit_width else None
        if pa.types.is_decimal(found):
            return _differs(array, cast, found)
        if pa.types.is_string(found) or pa.types.is_large_string(found):
            return _texts_differ(array, cast)
    if pa.types.is_decimal(type_) and pa.types.is_floating(found):
        return _differs(cast, array, type_)
    return None


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_))


def _rounded(array: pa.Array, cast: pa.Array) -> pa.BooleanArray:
    """Return which floats have another shortest form after a cast to fewer bits."""
    changed = pc.and_(pc.not_equal(cast.cast(array.type), array), pc.is_finite(array))
    if not pc.any(changed).as_py():
        return changed
    return pc.and_(changed, pc.not_equal(cast.cast(pa.string()), array.cast(pa.string())))


def _differs(decimals: pa.Array, floats: pa.Array, type_: pa.DataType) -> pa.BooleanArray:
    """Return which decimals are not the shortest forms of floats."""
    wide = pa.decimal256(76, type_.scale)
    texts = floats.cast(pa.string())
    try:
        return pc.not_equal(texts.cast(wide), decimals.cast(wide))
    except pa.ArrowInvalid:
        # A float has more digits than the decimal type, at least in one row.
        return pa.array([_differ(*pair, wide) for pair in zip(texts, decimals.cast(wide), strict=True)], pa.bool_())


def _differ(text: pa.StringScalar, decimal: pa.Scalar, wide: pa.DataType) -> bool | None:
    if not text.is_valid or not decimal.is_valid:
        return None
    try:
        return bool(text.cast(wide) != decimal)
    except pa.ArrowInvalid:
        return True


def _texts_differ(texts: pa.Array, floats: pa.Array) -> pa.BooleanArray:
    """Return which texts are other numbers than the shortest forms of floats."""

    def differ(text: str | None, shown: str | None) -> bool | None:
        if text is None or shown is None:
            return None
        number, again = Decimal(text), Decimal(shown)
        return not (number.is_nan() and again.is_nan()) and number != again

    pairs = zip(texts.to_pylist(), floats.cast(pa.string()).to_pylist(), strict=True)
    return pa.array(np.array([bool(differ(*pair)) for pair in pairs], dtype=np.bool_), pa.bool_())
