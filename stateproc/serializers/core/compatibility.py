"""Decide as Flink does whether a job's serializer takes what an older snapshot of it describes, and what it then reads.

Source: TypeSerializerSnapshot.resolveSchemaCompatibility, CompositeTypeSerializerSnapshot,
TypeSerializerSchemaCompatibility. Flink's answer says nothing about values: where it accepts a serializer that reads
other values (another Kryo), a note says so. The rules of a family of serializers are in its module `compatibility`;
serializers without one follow :func:`composite_answer`, which is what Flink's composite snapshots do.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from stateproc.codec.layouts import Layout
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import LayoutContext, Serializer, Undecodable
from stateproc.serializers.core.opaque import Opaque


class Answer(enum.IntEnum):
    """What Flink says; of a composite the greatest of its parts."""

    AS_IS = 0
    RECONFIGURED = 1
    AFTER_MIGRATION = 2
    INCOMPATIBLE = 3
    UNRESTORABLE = 4
    """No serializer can be made of the snapshot: nothing of its operator is restored."""
    UNREADABLE = 5
    """The snapshot cannot be read: nothing of its operator is restored."""


class Effect(enum.Enum):
    """What a note says about values."""

    CHANGE = "change"
    """Why the answer is not AS_IS."""
    LOSS = "loss"
    """What the migration loses."""
    MISREAD = "misread"
    """Flink accepts, and reads other values than were written, or throws while it reads."""
    THROWS = "throws"
    """The migration throws."""
    UNDECIDED = "undecided"
    """Only the values show whether they are read as they were written."""


@dataclass(frozen=True)
class Note:
    """One reason.

    ``path``: names of fields, ``[]`` for elements, empty for the value. ``exception``: its first line.
    """

    effect: Effect
    text: str
    path: str = ""
    exception: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.text}" if self.path else self.text


@dataclass(frozen=True)
class Compatibility:
    """Flink's answer, and notes about it."""

    answer: Answer = Answer.AS_IS
    notes: tuple[Note, ...] = ()

    def of(self, effect: Effect) -> tuple[Note, ...]:
        """The notes with that effect."""
        return tuple(note for note in self.notes if note.effect is effect)

    def below(self, path: str) -> Compatibility:
        """The same, as the answer about the part at ``path``."""
        return replace(self, notes=tuple(replace(note, path=joined(path, note.path)) for note in self.notes))

    def __and__(self, other: Compatibility) -> Compatibility:
        return Compatibility(max(self.answer, other.answer), self.notes + other.notes)


AS_IS = Compatibility()


def joined(path: str, below: str) -> str:
    """Join the path of a part and a path in it."""
    return path + below if not path or not below or below.startswith("[") else f"{path}.{below}"


def incompatible(text: str) -> Compatibility:
    """Flink refuses."""
    return Compatibility(Answer.INCOMPATIBLE, (Note(Effect.CHANGE, text),))


def unreadable(text: str, exception: str) -> Compatibility:
    """Flink cannot read the snapshot or make a serializer of it."""
    return Compatibility(Answer.UNREADABLE, (Note(Effect.CHANGE, text, exception=exception),))


@dataclass(frozen=True)
class Comparison:
    """Two jobs: what wrote the snapshot and what is to restore it.

    Attributes:
        old_kryo: the major version of Kryo that wrote values: 2 in Flink 1, 5 in Flink 2.
        release: the release that restores.
        classes: descriptions of user classes, as ``classes=`` takes them.
        tail: whether nothing follows the value: bytes of it that are not read then do no harm.
    """

    old_kryo: int
    release: Release
    classes: Mapping[str, Any] = field(default_factory=dict, hash=False)
    tail: bool = True

    @property
    def inner(self) -> Comparison:
        """The same, for a part that others follow."""
        return replace(self, tail=False) if self.tail else self

    @property
    def changes_kryo(self) -> bool:
        """Whether values of Kryo are read by another Kryo than wrote them."""
        return self.old_kryo != self.release.kryo


@dataclass(frozen=True)
class Undeclared(Serializer):
    """A serializer that a job has and nothing describes, but that is another than the snapshot's; ``text`` says why."""

    text: str

    def layout(self, ctx: LayoutContext) -> Layout:
        raise Undecodable(self.text)

    @property
    def type_name(self) -> str:
        return "?"


Rule = Callable[[Any, Any, Comparison], Compatibility]
"""The answer for an old and a new serializer of one class."""
Readability = Callable[[Any, Comparison], "Compatibility | None"]
"""Why the release cannot read a snapshot or restore a serializer of one class, without its parts; None if it can."""
Declared = Callable[[Any, Comparison], Serializer]
"""The serializer that the same job has on another release."""
_RULES: dict[type[Serializer], Rule] = {}
_READABLE: dict[type[Serializer], list[Readability]] = {}
_DECLARED: dict[type[Serializer], Declared] = {}


def rule(of: type[Serializer]) -> Callable[[Rule], Rule]:
    """Register the rule of a class of serializers (decorator)."""

    def register(function: Rule) -> Rule:
        _RULES[of] = function
        return function

    return register


def readability(of: type[Serializer]) -> Callable[[Readability], Readability]:
    """Register what a release cannot read of a class of serializers (decorator)."""

    def register(function: Readability) -> Readability:
        _READABLE.setdefault(of, []).append(function)
        return function

    return register


def declared(of: type[Serializer]) -> Callable[[Declared], Declared]:
    """Register what a class of serializers becomes in the same job on another release (decorator)."""

    def register(function: Declared) -> Declared:
        _DECLARED[of] = function
        return function

    return register


def resolve(old: Serializer, new: Serializer, comparison: Comparison) -> Compatibility:
    """Return the answer of Flink's TypeSerializerSnapshot.resolveSchemaCompatibility, with notes about values.

    Args:
        old: the serializer that the snapshot describes.
        new: the serializer of the job that restores.
        comparison: what wrote the one and restores with the other.
    """
    found = can_restore(old, comparison)
    return answer_of(old, new, comparison) if found is None else found


def answer_of(old: Serializer, new: Serializer, comparison: Comparison) -> Compatibility:
    """As :func:`resolve`, for parts of a snapshot that could be read."""
    if isinstance(new, Undeclared):
        return incompatible(new.text)
    if type(old) is not type(new):
        return incompatible(f"{old.type_name} → {new.type_name}")
    return _RULES.get(type(old), composite_answer)(old, new, comparison)


def can_restore(old: Serializer, comparison: Comparison) -> Compatibility | None:
    """Return why the release cannot read the snapshot or restore its serializer; None if it can."""
    for own in _READABLE.get(type(old), ()):
        found = own(old, comparison)
        if found is not None:
            return found
    for path, part in parts(old):
        found = can_restore(part, comparison)
        if found is not None:
            return found.below(path)
    return None


def same_job(old: Serializer, comparison: Comparison) -> Serializer:
    """Return the serializer that the job which wrote ``old`` has on the release of ``comparison``."""
    own = _DECLARED.get(type(old))
    if own is not None:
        return own(old, comparison)
    return with_parts(old, lambda part: same_job(part, comparison))


def composite_answer(old: Serializer, new: Serializer, comparison: Comparison) -> Compatibility:
    """Follow CompositeTypeSerializerSnapshot: everything but the parts has to be equal; the parts decide."""
    if outer(old) != outer(new):
        return incompatible(f"{old.type_name} → {new.type_name}")
    before, after = list(parts(old)), list(parts(new))
    if len(before) != len(after):
        return incompatible(f"{len(before)} parts → {len(after)}: {old.type_name} → {new.type_name}")
    found = AS_IS
    for index, ((path, one), (_, other)) in enumerate(zip(before, after, strict=True)):
        at = comparison if index == len(before) - 1 else comparison.inner
        found &= answer_of(one, other, at).below(path)
    return found


def parts(serializer: Serializer) -> Iterator[tuple[str, Serializer]]:
    """Yield the serializers that a serializer contains, each with its path."""
    for item in fields(serializer):  # type: ignore[arg-type]
        value = getattr(serializer, item.name)
        if isinstance(value, Serializer):
            yield _PATHS.get(item.name, item.name), value
        elif isinstance(value, tuple):
            for index, entry in enumerate(value):
                if isinstance(entry, Serializer):
                    yield f"{_PATHS.get(item.name, item.name)}{index}", entry


_PATHS = {"element": "[]", "fields": "f", "value": "value", "inner": "", "members": "member"}
"""Names in paths for the fields of serializers' classes."""


def outer(serializer: Serializer) -> tuple[Any, ...]:
    """Return what a serializer is without those that it contains."""
    found: list[Any] = []
    for item in fields(serializer):  # type: ignore[arg-type]
        value = getattr(serializer, item.name)
        nests = isinstance(value, Serializer) or (
            isinstance(value, tuple) and any(isinstance(entry, Serializer) for entry in value)
        )
        if item.compare and not nests:
            found.append(value)
    return tuple(found)


def with_parts(serializer: Serializer, change: Callable[[Serializer], Serializer]) -> Serializer:
    """Return a serializer with changed parts; the same object if none changes."""
    changed: dict[str, Any] = {}
    for item in fields(serializer):  # type: ignore[arg-type]
        value = getattr(serializer, item.name)
        if isinstance(value, Serializer):
            made: Any = change(value)
        elif isinstance(value, tuple):
            made = tuple(change(entry) if isinstance(entry, Serializer) else entry for entry in value)
        else:
            continue
        if made is not value and made != value:
            changed[item.name] = made
    return replace(serializer, **changed) if changed else serializer  # type: ignore[type-var]


@rule(Opaque)
def _resolve_opaque(old: Opaque, new: Opaque, comparison: Comparison) -> Compatibility:
    """A user's serializer: its own snapshot class decides; equal snapshots are taken as they are."""
    if old.class_name != new.class_name:
        return incompatible(f"{old.class_name} → {new.class_name}")
    if old.snapshot != new.snapshot:
        text = f"{old.class_name} is a class of the job's; it decides whether it takes the snapshot"
        return Compatibility(Answer.AS_IS, (Note(Effect.UNDECIDED, text),))
    return AS_IS
