"""Hash codes of objects by the formulas that compilers and libraries generate, which a user or the serializer names.

Each is over the hash codes of fields, in the order in which the method has them:

* ``Objects.hash``: from 1, 31 * h + hash (java.util.Objects.hash; Eclipse's generated method is the same)
* ``record``, ``kotlin``: from 0, 31 * h + hash (java.lang.runtime.ObjectMethods; Kotlin's data classes, IntelliJ's
  generated method). Older Kotlin compilers hash a Boolean that cannot be null to 1 or 0.
* ``lombok``: from 1, 59 * h + hash; 43 for null, 79 or 97 for primitive booleans
* ``scala-2.12``: MurmurHash3.productHash, seed 0xcafebabe; ``scala-2.13``, also of Scala 3: the same, but the hash of
  the class's simple name is mixed in first. Numbers hash as ``##`` does: 1, 1L and 1.0 are equal.

Source: scala.util.hashing.MurmurHash3, scala.runtime.Statics, lombok.javac.handlers.HandleEqualsAndHashCode.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.array_types import Ints, Words
from stateproc.codec.arrow_arrays import null_rows
from stateproc.errors import InvalidOption
from stateproc.keygroups.hashed_types import hashed, hashed_values
from stateproc.keygroups.hashes import hash_codes
from stateproc.keygroups.kernels import fields, numbers
from stateproc.keygroups.key_hash import KeyHash, is_reproducible
from stateproc.keygroups.scalars import double_hashes, float_hashes, long_hashes
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.java.class_descriptions import parse_classes
from stateproc.serializers.pojo.serializer import Pojo
from stateproc.serializers.scala import CaseClass, OptionOf

OBJECTS_HASH = "Objects.hash"
SCALA_2_12, SCALA_2_13 = "scala-2.12", "scala-2.13"
SCALA = "scala"
"""Both of Scala's; keys at hand show which."""
_MOST_BOOLEANS = 4
_PRODUCT_SEED = 0xCAFEBABE
_NONE = "None"
_OPTION, _PRODUCT = "scala_option", -1


@dataclass(frozen=True)
class Formula:
    """How hash codes of fields are joined.

    Attributes:
        start: The first value.
        factor: What the value is multiplied by before each field is added.
        null: The hash of null.
        booleans: What else true and false may hash to.
    """

    start: int
    factor: int
    null: int = 0
    booleans: tuple[int, int] | None = None


FORMULAS = {
    OBJECTS_HASH: Formula(1, 31),
    "record": Formula(0, 31),
    "kotlin": Formula(0, 31, booleans=(1, 0)),
    "lombok": Formula(1, 59, null=43, booleans=(79, 97)),
}
NAMES = (*FORMULAS, SCALA, SCALA_2_12, SCALA_2_13)
HASH_FUNCTIONS = ", ".join(NAMES)


@dataclass(frozen=True)
class FieldHash:
    """How one field of a key is hashed. ``kind``: None for booleans of a formula of their own (``booleans``)."""

    index: int
    kind: KeyHash
    booleans: tuple[int, int] | None = None


@dataclass(frozen=True)
class ClassHash:
    """The hash codes of objects of one class by one formula; picklable.

    Attributes:
        name: The formula, as users name it.
        fields: The fields that are hashed, in order.
        prefix: The class's simple name, of Scala 2.13's formula.
    """

    name: str
    fields: tuple[FieldHash, ...]
    prefix: str | None = None

    def codes(self, keys: pa.Array) -> Ints:
        """Return the hash code of each key. Raises InvalidOption where the columns do not fit."""
        columns = fields(keys) if len(keys) else []
        if not columns:
            return np.zeros(len(keys), np.int32)
        values = [(hashed_values(columns[each.index], each.kind), each) for each in self.fields]
        if self.name in FORMULAS:
            return _joined(FORMULAS[self.name], values, len(keys))
        return _product([_scala_codes(column, each.kind) for column, each in values], self.prefix, len(keys))


def class_hashes(serializer: Serializer, named: str, context: LayoutContext) -> list[ClassHash]:
    """Return what a name can mean for keys of this serializer: several where types of fields do not show it.

    Args:
        serializer: That of the keys.
        named: One of NAMES; the fields in the order of the method may follow: ``record:name,count``. Without, the
            order is that of the class's description, else of the serializer, which is alphabetical in POJOs.
        context: How keys are decoded.

    Raises:
        InvalidOption: There is no such name or field, or a field has no hash that follows from its value.
    """
    name, _, order = named.partition(":")
    if name not in NAMES:
        raise InvalidOption(
            f"no hash function is called {name!r}",
            advice=f"there are {HASH_FUNCTIONS}; any other hashCode comes as a column of ints, hash_column='…', or "
            "from a function in Python",
        )
    own = _fields(serializer, context)
    if not own:
        raise InvalidOption(f"keys of the type {serializer.type_name} have no fields whose hashes {name} could join")
    chosen = [part.strip() for part in order.split(",")] if order else _declared_order(serializer, own, context)
    for part in chosen:
        if part not in own:
            raise InvalidOption(
                f"{serializer.type_name} has no field {part!r} that {name} could hash",
                advice=f"its fields are {', '.join(own)}",
            )
    if name not in FORMULAS:
        wanted = (SCALA_2_12, SCALA_2_13) if name == SCALA else (name,)
        return [_scala_hash(serializer, one, [own[part] for part in chosen], chosen, context) for one in wanted]
    return _formula_hashes(serializer, name, [own[part] for part in chosen], chosen, context)


def _fields(serializer: Serializer, context: LayoutContext) -> dict[str, tuple[int, Serializer]]:
    """Return the fields by name, each with its place in the layout."""
    if isinstance(serializer, Pojo):
        parts = dict(serializer.fields)
    elif isinstance(serializer, CaseClass):
        parts = dict(zip(serializer.names(context), serializer.fields, strict=True))
    else:
        arrow = serializer.layout(context).arrow_type
        if not pa.types.is_struct(arrow) or arrow.num_fields != len(serializer.nested):
            return {}
        parts = dict(zip([each.name for each in arrow], serializer.nested, strict=True))
    arrow = serializer.layout(context).arrow_type
    return {name: (arrow.get_field_index(name), part) for name, part in parts.items() if name}


def _declared_order(
    serializer: Serializer, own: dict[str, tuple[int, Serializer]], context: LayoutContext
) -> Sequence[str]:
    described = parse_classes(context.classes).get(getattr(serializer, "class_name", "")) if context.classes else None
    names = [] if described is None else [name for name, _ in described.fields]
    return names if set(names) == set(own) else [*own]


def _formula_hashes(
    serializer: Serializer,
    name: str,
    parts: Sequence[tuple[int, Serializer]],
    shown: Sequence[str],
    context: LayoutContext,
) -> list[ClassHash]:
    other, options = FORMULAS[name].booleans, []
    for (index, part), field_name in zip(parts, shown, strict=True):
        how = hashed(part, context, inside=True)
        if how is None or not is_reproducible(how.kind):
            raise _no_hash(serializer, name, field_name, part)
        is_ambiguous = how.kind.kind == "boolean" and other is not None
        options.append([FieldHash(index, how.kind, each) for each in ((other, None) if is_ambiguous else (None,))])
    if sum(len(each) > 1 for each in options) > _MOST_BOOLEANS:
        # All of them primitive, or none.
        return [ClassHash(name, tuple(each[at % len(each)] for each in options)) for at in range(2)]
    return [ClassHash(name, each) for each in itertools.product(*options)]


def _scala_hash(
    serializer: Serializer,
    name: str,
    parts: Sequence[tuple[int, Serializer]],
    shown: Sequence[str],
    context: LayoutContext,
) -> ClassHash:
    found = []
    for (index, part), field_name in zip(parts, shown, strict=True):
        kind = _scala_kind(part, name, context)
        if kind is None:
            raise _no_hash(serializer, name, field_name, part)
        found.append(FieldHash(index, kind))
    class_name = getattr(serializer, "class_name", "")
    return ClassHash(name, tuple(found), _prefix(class_name) if name == SCALA_2_13 else None)


def _scala_kind(part: Serializer, name: str, context: LayoutContext) -> KeyHash | None:
    """Return how ``##`` of a field is computed."""
    if isinstance(part, OptionOf):
        inner = _scala_kind(part.element, name, context)
        return None if inner is None or inner.kind == _OPTION else KeyHash(_OPTION, (inner,), scale=name == SCALA_2_13)
    if isinstance(part, CaseClass):
        kinds = [_scala_kind(each, name, context) for each in part.fields]
        known = tuple(each for each in kinds if each is not None)
        if len(known) < len(kinds) or not known:
            return None
        return KeyHash(_prefix(part.class_name) if name == SCALA_2_13 else "", known, precision=_PRODUCT)
    how = hashed(part, context, inside=True)
    return how.kind if how is not None and is_reproducible(how.kind) else None


def _prefix(class_name: str) -> str:
    """Return productPrefix: the simple name as it is in the source.

    Of specialised tuples (Tuple2$mcII$sp) it is without what follows, of classes in methods (Job$Key$1) without their
    number; operators are encoded in names of classes ($plus).
    """
    plain = class_name.rstrip("$").partition("$mc")[0] if class_name.startswith("scala.Tuple") else class_name
    simple = _NUMBER_OF_LOCAL.sub("", plain.rsplit(".", 1)[-1])
    return _ENCODED.sub(lambda found: _OPERATORS[found[1]], simple).rsplit("$", 1)[-1]


_NUMBER_OF_LOCAL = re.compile(r"(\$\d+)+$")
_OPERATORS = {
    "tilde": "~",
    "eq": "=",
    "less": "<",
    "greater": ">",
    "bang": "!",
    "hash": "#",
    "percent": "%",
    "up": "^",
    "amp": "&",
    "bar": "|",
    "times": "*",
    "div": "/",
    "plus": "+",
    "minus": "-",
    "colon": ":",
    "bslash": "\\",
    "qmark": "?",
    "at": "@",
}
"""How scala.reflect.NameTransformer encodes operators."""
_ENCODED = re.compile(r"\$(" + "|".join(_OPERATORS) + ")")


def _no_hash(serializer: Serializer, name: str, field_name: str, part: Serializer) -> InvalidOption:
    return InvalidOption(
        f"the field {field_name!r} of {serializer.type_name} has no hash that {name} could join: it is of the type "
        f"{part.type_name}, whose hash does not follow from its bytes",
        advice="keep the max parallelism: hashes of enums and arrays are others in every JVM; for a class with a "
        "hashCode of its own give, in Python, a function of the keys that returns their hash codes",
    )


def _joined(formula: Formula, values: Sequence[tuple[pa.Array, FieldHash]], rows: int) -> Ints:
    codes = np.full(rows, formula.start, np.int32)
    for column, each in values:
        if each.booleans is None:
            own = hash_codes(column, each.kind)
        else:
            yes, no = each.booleans
            own = np.where(hash_codes(column, each.kind) == 1231, np.int32(yes), np.int32(no))
        if column.null_count:
            own = np.where(null_rows(column), np.int32(formula.null), own)
        codes = codes * np.int32(formula.factor) + own
    return codes


# --- Scala -----------------------------------------------------------------------------------------------


def _scala_codes(column: pa.Array, kind: KeyHash) -> Ints:
    """Return ``##`` of each value: 0 for null, which of an option is None."""
    if kind.kind == _OPTION:
        some = _product([_scala_codes(column, kind.children[0])], "Some" if kind.scale else None, len(column))
        return np.where(null_rows(column), _text_hash(_NONE), some) if column.null_count else some
    if kind.precision == _PRODUCT:
        parts = [_scala_codes(part, child) for part, child in zip(fields(column), kind.children, strict=True)]
        codes = _product(parts, kind.kind or None, len(column))
    else:
        codes = _NUMBERS[kind.kind](column) if kind.kind in _NUMBERS else hash_codes(column, kind)
    return np.where(null_rows(column), np.int32(0), codes) if column.null_count else codes


def _product(parts: Sequence[Ints], prefix: str | None, rows: int) -> Ints:
    """MurmurHash3.productHash."""
    h = np.full(rows, _PRODUCT_SEED, np.uint32)
    if prefix is not None:
        h = _mix(h, np.full(rows, _text_hash(prefix), np.int32).view(np.uint32))
    for part in parts:
        h = _mix(h, np.ascontiguousarray(part, np.int32).view(np.uint32))
    h = h ^ np.uint32(len(parts))
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    codes: Ints = (h ^ (h >> np.uint32(16))).view(np.int32)
    return codes


def _mix(h: Words, k: Words) -> Words:
    k = _rotated(k * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    mixed: Words = _rotated(h ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    return mixed


def _rotated(x: Words, bits: int) -> Words:
    rotated: Words = (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))
    return rotated


def _text_hash(text: str) -> np.int32:
    code: np.int32 = hash_codes(pa.array([text], pa.string()), KeyHash("string"))[0]
    return code


def _longs(column: pa.Array) -> Ints:
    """Statics.longHash: as Int where it is one."""
    return _long_codes(numbers(column, np.int64))


def _long_codes(values: np.ndarray) -> Ints:
    narrow = values.astype(np.int32)
    return np.where(narrow == values, narrow, long_hashes(values))


def _doubles(column: pa.Array) -> Ints:
    """Statics.doubleHash: as Int, Long or Float where it is one."""
    values = numbers(column, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        single = values.astype(np.float32)
        is_single = single.astype(np.float64) == values
    floats = float_hashes(pa.array(single, pa.float32()))
    own = np.where(is_single, floats, double_hashes(pa.array(values, pa.float64())))
    return _whole_or(values, own)


def _floats(column: pa.Array) -> Ints:
    values = numbers(column, np.float32)
    return _whole_or(values.astype(np.float64), float_hashes(pc.cast(pa.array(values), pa.float32())))


def _whole_or(values: np.ndarray, own: Ints) -> Ints:
    """Numbers that are whole and fit into a long hash as that. Java's casts saturate, so 2⁶³ − 1 is what 2⁶³ gives."""
    is_whole = np.isfinite(values) & (values == np.trunc(values)) & (np.abs(values) < 2.0**63)
    codes = _long_codes(np.where(is_whole, values, 0.0).astype(np.int64))
    found = np.where(is_whole, codes, own)
    # (double) of the largest long is 2⁶³ itself; −2⁶³ is a long.
    edges = {2.0**63: np.iinfo(np.int64).max, -(2.0**63): np.iinfo(np.int64).min}
    for edge, long in edges.items():
        found = np.where(values == edge, long_hashes(np.array([long], np.int64))[0], found)
    return found.astype(np.int32)


_NUMBERS: dict[str, Callable[[pa.Array], Ints]] = {"long": _longs, "double": _doubles, "float": _floats}
