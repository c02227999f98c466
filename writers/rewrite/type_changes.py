"""Match the columns of a state's values with those of another type: what becomes of each, as a tree.

Fields are matched by name and kind, and nothing is taken for another: what the old type does not have has to be said,
as a renamed field or as an expression. All that changes is listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.arrow_arrays import Unencodable
from stateproc.errors import InvalidOption, Where, not_found
from stateproc.readers.state_descriptor import StateKind
from stateproc.serializers import Serializer
from stateproc.serializers.java.collections import ListOf, MapOf
from stateproc.serializers.java.structs import NullableOf, RowOf, TupleOf
from stateproc.serializers.pojo.serializer import CLASS_FIELD, Pojo
from stateproc.writers.bootstrap.column_types import rebuilt
from stateproc.writers.rewrite.row_assignments import Assignment, Settable, family, fits, parsed_assignments, plain

Path = tuple[str, ...]
"""The names of a column and of fields in it. Elements of lists and entries of maps have no name of their own."""


class Node(Protocol):
    """What becomes of a column, of a field in it, of elements."""

    def of(self, array: pa.Array, given: Mapping[Path, pa.Array]) -> pa.Array:
        """Return the new values of those before; of a field that was not, of the structs. Raises Unencodable."""


@dataclass(frozen=True)
class Kept:
    """Values stay what they are; their encoder refuses those that do not fit."""

    def of(self, array: pa.Array, given: Mapping[Path, pa.Array]) -> pa.Array:
        """Return the values."""
        return array


@dataclass(frozen=True)
class Narrowed:
    """Doubles as floats, where nothing is lost; Arrow would take the nearest."""

    def of(self, array: pa.Array, given: Mapping[Path, pa.Array]) -> pa.Array:
        """Return the floats. Raises Unencodable."""
        found = array.cast(pa.float32())
        same = pc.or_(pc.equal(found.cast(pa.float64()), array), pc.is_nan(array))
        lost = pc.fill_null(pc.invert(same), False)
        if pc.any(lost).as_py():
            row = pc.index(lost, True).as_py()
            raise Unencodable(f"{array[row]} is no float: CAST(… AS FLOAT) takes the nearest", row)
        return found


@dataclass(frozen=True)
class Given:
    """The values of the expression for a path."""

    path: Path
    type: pa.DataType

    def of(self, array: pa.Array, given: Mapping[Path, pa.Array]) -> pa.Array:
        """Return the values. Raises Unencodable for values of another kind."""
        return fitting(given[self.path], self.type, ".".join(self.path))


def fitting(values: pa.Array, type_: pa.DataType, name: str) -> pa.Array:
    """Return the values of an expression for a column. Raises Unencodable for values of another kind."""
    if family(values.type) not in (family(type_), "null") or not fits(values, type_):
        raise Unencodable(f"{name}: {values.type} does not fit {type_}", 0)
    return pa.nulls(len(values), type_) if values.null_count == len(values) else values


@dataclass(frozen=True)
class Fields:
    """Structs with other fields.

    Attributes:
        parts: Of each field its name, the name before (None for one of an expression), and what becomes of it.
        only: The class that all values have to have, as the new type has no subclasses; "" for any.
    """

    parts: tuple[tuple[str, str | None, Node], ...]
    only: str = ""

    def of(self, array: pa.Array, given: Mapping[Path, pa.Array]) -> pa.Array:
        """Return the new structs; null ones stay null. Raises Unencodable for values of subclasses."""
        if self.only:
            self._refuse_subclasses(array.field(array.type.get_field_index(CLASS_FIELD)))
        children = [
            node.of(array if before is None else array.field(array.type.get_field_index(before)), given)
            for _, before, node in self.parts
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, [name for name, _, _ in self.parts], mask=mask)

    def _refuse_subclasses(self, classes: pa.Array) -> None:
        others = pc.fill_null(pc.not_equal(classes.cast(pa.string()), self.only), False)
        if pc.any(others).as_py():
            row = pc.index(others, True).as_py()
            raise Unencodable(f"a value of the subclass {classes[row]}, which the new type does not have", row)


@dataclass(frozen=True)
class Elements:
    """Lists of other elements."""

    element: Node

    def of(self, array: pa.Array, given: Mapping[Path, pa.Array]) -> pa.Array:
        """Return the new lists. Raises Unencodable."""
        child = self.element.of(array.values, given)
        return rebuilt(array, pa.list_(child.type), child)


@dataclass(frozen=True)
class OnlyElement:
    """Lists of one element: what becomes of the value."""

    element: Node

    def of(self, array: pa.Array, given: Mapping[Path, pa.Array]) -> pa.Array:
        """Return the lists. Raises Unencodable."""
        child = self.element.of(array, given)
        return pa.ListArray.from_arrays(pa.array(range(len(child) + 1), pa.int32()), child)


@dataclass(frozen=True)
class Entries:
    """Maps of other values; their keys stay."""

    value: Node

    def of(self, array: pa.Array, given: Mapping[Path, pa.Array]) -> pa.Array:
        """Return the new maps. Raises Unencodable."""
        items = self.value.of(array.items, given)
        pairs = pa.StructArray.from_arrays([array.keys, items], ["key", "value"])
        return rebuilt(array, pa.map_(array.keys.type, items.type), pairs)


class _Matching:
    """Matches the fields of a type with those of another.

    Attributes:
        changes: What changes, in words.
        missing: Fields that the old type does not have in that kind, and which were not given.
        removed: Fields that the new type does not have.
        fields: The fields of the old type that were looked at, by their paths in a value.
    """

    def __init__(self, value: Serializer, renames: Mapping[Path, Path], given: Mapping[Path, str]) -> None:
        self.changes: list[str] = []
        self.missing: list[str] = []
        self.removed: list[str] = []
        self._value, self._renames, self._given = value, renames, given
        self._used: set[Path] = set()
        self.fields: list[str] = []

    @property
    def unused(self) -> list[Path]:
        """The renamed fields that there are not."""
        return [path for path in self._renames if path not in self._used]

    def node(self, old: pa.DataType, new: pa.DataType, path: Path, before: Path) -> Node:
        """Return what becomes of a column or field; ``path``, ``before``: where it is, and was."""
        old, new = plain(old), plain(new)
        if path in self._given:
            self.changes.append(f"{_shown(path)} = {self._given[path]}")
            return Given(path, new)
        kind = family(old)
        if kind != family(new) == "struct":
            return self._made(new, path)
        if kind != family(new):
            self.missing.append(f"{_shown(path)}, which is {new} and was {old}")
            return Kept()
        match kind:
            case "struct":
                return self._fields(old, new, path, before)
            case "list":
                element = self.node(old.value_type, new.value_type, path, before)
                return element if isinstance(element, Kept) else Elements(element)
            case "map":
                if not isinstance(self.node(old.key_type, new.key_type, path, before), Kept):
                    self.missing.append(f"{_shown(path)}, whose keys have other fields")
                value = self.node(old.item_type, new.item_type, path, before)
                return value if isinstance(value, Kept) else Entries(value)
        if old != new:
            self.changes.append(f"{_shown(path)}: {old} → {new}")
        return Narrowed() if pa.types.is_float64(old) and pa.types.is_float32(new) else Kept()

    def _made(self, new: pa.StructType, path: Path) -> Node:
        """Return structs that expressions give, where there were none."""
        parts: list[tuple[str, str | None, Node]] = []
        for one in new:
            mine = (*path, one.name)
            if mine in self._given:
                self.changes.append(f"{_shown(mine)} = {self._given[mine]}")
            else:
                self.missing.append(_shown(mine))
            parts.append((one.name, None, Given(mine, plain(one.type))))
        return Fields(tuple(parts))

    def _fields(self, old: pa.StructType, new: pa.StructType, path: Path, before: Path) -> Node:
        source = self._sources(old, new, before)
        self.fields += [_shown((*before[1:], one.name)) for one in old]
        parts: list[tuple[str, str | None, Node]] = []
        for one in new:
            mine, was = (*path, one.name), source.get(one.name)
            if mine in self._given:
                self.changes.append(f"{_shown(mine)} = {self._given[mine]}")
                parts.append((one.name, None, Given(mine, plain(one.type))))
            elif was is None:
                nested = {given for given in self._given if given[: len(mine)] == mine}
                self.missing.append(_shown(mine) + (", as a whole" if nested else ""))
                parts.append((one.name, None, Kept()))
            else:
                if was != one.name:
                    self.changes.append(f"{_shown((*before, was))} renamed to {one.name}")
                parts.append((one.name, was, self.node(old.field(was).type, one.type, mine, (*before, was))))
        taken = {was for _, was, _ in parts if was is not None}
        gone = [one.name for one in old if one.name not in taken and one.name != CLASS_FIELD]
        self.removed += [_shown((*before, name)) for name in gone if (*path, name) not in self._given]
        self.changes += [f"{_shown((*before, name))} removed" for name in gone if (*path, name) not in self._given]
        is_same = [one.name for one in old] == [was for _, was, _ in parts] == [name for name, _, _ in parts]
        if is_same and all(isinstance(node, Kept) for _, _, node in parts):
            return Kept()
        loses_class = old.get_field_index(CLASS_FIELD) >= 0 and CLASS_FIELD not in taken
        return Fields(tuple(parts), self._class_at(before) if loses_class else "")

    def _class_at(self, before: Path) -> str:
        """Return the class of the POJOs at a path; "" for structs that are no POJOs."""
        found = _structure(self._value)
        for name in before[1:]:
            child = _children(found).get(name)
            if child is None:
                return ""
            found = _structure(child)
        return found.class_name if isinstance(found, Pojo) else ""

    def _sources(self, old: pa.StructType, new: pa.StructType, before: Path) -> dict[str, str]:
        """Return the field before of each field."""
        found, moved = dict[str, str](), set[str]()
        for one in old:
            to = self._renames.get((*before[1:], one.name))
            if to is not None and to[:-1] == before[1:] and new.get_field_index(to[-1]) >= 0:
                self._used.add((*before[1:], one.name))
                found[to[-1]] = one.name
                moved.add(one.name)
        for one in old:
            if one.name not in moved and new.get_field_index(one.name) >= 0:
                found.setdefault(one.name, one.name)
        return found


def _structure(serializer: Serializer) -> Serializer:
    """Return what elements of lists, values of maps and what may be null are."""
    while isinstance(serializer, ListOf | MapOf | NullableOf):
        serializer = serializer.nested[-1]
    return serializer


def _children(serializer: Serializer) -> Mapping[str, Serializer]:
    """Return the types of fields by their names."""
    if isinstance(serializer, Pojo):
        return dict(serializer.fields)
    if isinstance(serializer, TupleOf | RowOf):
        return {f"f{index}": one for index, one in enumerate(serializer.fields)}
    return {}


def _shown(path: Path) -> str:
    return ".".join(path)


@dataclass(frozen=True)
class Matched:
    """How the columns of two types match: what becomes of the column, the expressions, and what changes in words."""

    node: Node
    assignments: tuple[Assignment, ...]
    changes: tuple[str, ...]


class Change(Protocol):
    """Another type of a state's values, or of the keys of its maps: how their columns match."""

    @property
    def value(self) -> Serializer:
        """The new type."""

    @property
    def as_keys(self) -> bool:
        """Whether it is the type of the keys of a map."""

    @property
    def kind(self) -> StateKind | None:
        """The kind of state that it becomes; None where that stays."""

    @property
    def user_key(self) -> Serializer | None:
        """The new type of the keys of a map state that it becomes, or wider keys of one that it stays."""

    def matched(self, old: Serializer, settable: Settable, before: pa.Schema, after: pa.Schema, at: Where) -> Matched:
        """Return how the columns match, with dates and times as Arrow's types. Raises InvalidOption."""


@dataclass(frozen=True)
class TypeChange:
    """Another type of a state's values, as a user wants it.

    Attributes:
        value: The new type of values, of list elements, of map values.
        renames: Fields that have another name, as they were and as they are: ``address.zip`` → ``address.postcode``.
        assignments: Fields that are given by expressions, as ``value.note = 'none'``: fields of the new type, and
            columns of the old one.
        kind: The kind of state that it becomes; None where that stays.
        user_key: The new type of a map state's keys, of a state that becomes one.
    """

    value: Serializer
    renames: Mapping[str, str]
    assignments: tuple[str, ...]
    kind: StateKind | None = None
    user_key: Serializer | None = None
    as_keys = False

    def matched(
        self,
        old: Serializer,
        settable: Settable,
        before: pa.Schema,
        after: pa.Schema,
        at: Where,
        *,
        as_element: bool = False,
    ) -> Matched:
        """Return how the columns match, with dates and times as Arrow's types.

        Args:
            after: The columns that they become.
            at: The state, for errors.
            as_element: Whether the value becomes the only element of a list; ``after`` has the list.

        Raises:
            InvalidOption: Fields are missing, a rename or an expression does not fit.
        """
        root = (settable.column,)
        wanted = after.field(root[0]).type
        element = wanted.value_type if as_element else wanted
        parsed = parsed_assignments(self.assignments, settable, before, pa.schema([(root[0], element)]))
        matching = _Matching(old, _paths(self.renames, at), {one.path: one.expression for one in parsed})
        is_whole = any(one.path == root for one in parsed)
        node = matching.node(before.field(root[0]).type, wanted if is_whole else element, root, root)
        if as_element and not is_whole:
            node = OnlyElement(node)
        _check_complete(matching, root, at)
        words = f"type {old.type_name} → {self.value.type_name}"
        return Matched(node, parsed, (words, *matching.changes))


@dataclass(frozen=True)
class WiderKeys:
    """Another type of the keys of maps, which has all of their values."""

    value: Serializer
    as_keys = True
    kind = user_key = None

    def matched(self, old: Serializer, settable: Settable, before: pa.Schema, after: pa.Schema, at: Where) -> Matched:
        """Return that the keys stay, in the other type."""
        return Matched(Kept(), (), (f"keys {old.type_name} → {self.value.type_name}",))


def _paths(renames: Mapping[str, str], at: Where) -> dict[Path, Path]:
    found: dict[Path, Path] = {}
    for before, after in renames.items():
        one, two = tuple(before.split(".")), tuple(after.split("."))
        if one[:-1] != two[:-1]:
            raise InvalidOption(
                f"rename: {before} and {after} are in different places",
                where=at,
                advice=f"move it by an expression: --set 'value.{after} = value.{before}'",
            )
        if two in found.values():
            raise InvalidOption(f"rename: two fields are renamed to {after}", where=at, advice="rename one of them")
        found[one] = two
    return found


def _check_complete(matching: _Matching, root: Path, at: Where) -> None:
    """Raise NotFound for renamed fields that there are not; InvalidOption for fields that nobody gave."""
    if matching.unused:
        unknown = not_found("field that can be renamed so", _shown(matching.unused[0]), matching.fields)
        raise unknown.at(operator=at.operator, state=at.state)
    if not matching.missing:
        return
    gone = f" (the new type does not have {', '.join(matching.removed)})" if matching.removed else ""
    first = matching.missing[0].partition(",")[0]
    if first == _shown(root):
        advice = f"give it by an expression over the old columns, as in --set '{first} = CAST({first} AS VARCHAR)'"
    else:
        advice = (
            f"give each by an expression over the old columns, as in --set '{first} = NULL', or name the field that it "
            f"was: --rename OLD={first.rpartition('.')[2]}"
        )
    raise InvalidOption(
        f"the old type does not have: {'; '.join(matching.missing)}{gone}",
        where=at,
        advice=advice,
    )
