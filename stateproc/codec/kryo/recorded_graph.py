"""Record the objects of a Kryo value as a tree: classes, references, and the range of bytes of each body.

What `read_kryo` returns is the value as rows show it; a tree also has what another version of Kryo needs to write the
same objects: the class of every collection, which objects are one, how the class of each was found.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any

from stateproc.codec.kryo.collections import FORMS, SORTED_FORMS
from stateproc.codec.kryo.primitives import KryoInput
from stateproc.codec.kryo.reader import BODIES, read_guessing
from stateproc.codec.kryo.setting import Guesses, KryoSetting
from stateproc.codec.kryo.types import FieldType, UserClass
from stateproc.codec.kryo.values import KryoObject
from stateproc.codec.kryo.walker import Body, BodyReaders, Walker
from stateproc.wire import Cursor
from stateproc.wire.java_stream import JavaValue

_AS_LIST = "java.util.Arrays$ArrayList"


class How(enum.Enum):
    """How a node was read: an object after its class, one of a class that is known, a primitive, a bare class."""

    BY_CLASS = "by class"
    KNOWN = "known"
    PRIMITIVE = "primitive"
    CLASS = "class"


@dataclass(eq=False, slots=True)
class Node:
    """An object, a primitive or a class in a value.

    Attributes:
        how: How it was read.
        type: Its class, None for null.
        null: Whether an object of a known class is null.
        original: The object that it is a reference to.
        body: The reader of its body, FIELDS, CONSTANT or JAVA_STREAM; None if it has none.
        own: The serializer of the job's that wrote it, by its class.
        described: The description by whose fields it was read.
        start: Where its body begins in ``data``, and ``stop`` where it ends.
        children: The objects, primitives of fields, and classes in its body, in their order.
        java: What an object stream of Java has as its body.
    """

    how: How
    type: FieldType | None = None
    null: bool = False
    original: Node | None = None
    body: Body | str | None = None
    own: str | None = None
    described: UserClass | None = None
    data: memoryview = field(default=memoryview(b""), repr=False)
    start: int = 0
    stop: int = 0
    children: list[Node] = field(default_factory=list)
    java: JavaValue = None

    @property
    def bytes(self) -> bytes:
        """The bytes of the body, with those of the children in it."""
        return bytes(self.data[self.start : self.stop])

    @property
    def resolved(self) -> Node:
        """The object itself where this is a reference to it."""
        return self if self.original is None else self.original

    @property
    def elements(self) -> list[Node]:
        """The elements of a collection, without what is before them: a comparator, the class of an array."""
        found, children = list[Node](), iter(self.children)
        for child in children:
            if child.how is not How.CLASS:
                found.append(child)
            elif child.type is not None and self.type is not None and self.type.name != _AS_LIST:
                next(children, None)
        return found


FIELDS, CONSTANT, JAVA_STREAM = "fields", "constant", "java stream"


class _Found(Guesses):
    """The guesses with which a value was read; ``unknown``: whether it was asked for another one."""

    def __init__(self, made: Mapping[str, int]) -> None:
        super().__init__()
        self._found = made
        self.unknown = False

    def choose(self, what: str, n: int) -> int:
        self.unknown |= what not in self._found
        return self._found.get(what, 0)


class _Recorder(Walker):
    """A walker that makes a tree of what it reads.

    ``value``, ``end``: what `by_class` returned for the whole value, and where the cursor was then.
    """

    def __init__(self, data: KryoInput, setting: KryoSetting, guesses: Guesses) -> None:
        super().__init__(data, setting, guesses, _RECORDED)
        self.root = Node(How.BY_CLASS)
        self._nodes = [self.root]
        self._by_index: list[Node] = []
        self._given: Node | None = self.root
        self.value: Any = None
        self.end = -1
        self._found = _Found({})

    @property
    def node(self) -> Node:
        """The object whose body is read."""
        return self._nodes[-1]

    def _made(self, how: How) -> Node:
        """The node for what is read now: that of the value itself, or a new one."""
        given, self._given = self._given, None
        if given is not None:
            given.how = how
            return given
        made = Node(how)
        self.node.children.append(made)
        return made

    def read_class(self, args: tuple[FieldType, ...] = ()) -> FieldType | None:
        node = self._made(How.CLASS)
        node.type = super().read_class(args)
        node.data, node.stop = self.data.cursor.data, self.data.cursor.pos
        return node.type

    def by_class(self, args: tuple[FieldType, ...] = ()) -> Any:
        is_root = self._given is not None
        node = self._made(How.BY_CLASS)
        node.type = Walker.read_class(self, args)
        value = None if node.type is None else self._inside(node, node.type, False)
        if is_root:
            self.value, self.end, self._found = value, self.data.cursor.pos, _Found(self.guesses.made)
        return value

    def is_final(self, type_: FieldType) -> bool | None:
        """Whether a class is final; None where neither a description nor the bytes say so."""
        self.guesses, self._found.unknown = self._found, False
        found = self.final(type_)
        return None if self._found.unknown else found

    def known(self, type_: FieldType, nullable: bool = True) -> Any:
        node = self._made(How.KNOWN)
        node.type = type_
        return self._inside(node, type_, nullable)

    def _inside(self, node: Node, type_: FieldType, nullable: bool) -> Any:
        self._nodes.append(node)
        # Until its body is read, which a null and a reference do not have.
        node.null = True
        try:
            return Walker.known(self, type_, nullable)
        finally:
            self._nodes.pop()

    def declared(self, type_: FieldType) -> Any:
        if not type_.primitive:
            return super().declared(type_)
        node = self._made(How.PRIMITIVE)
        node.type, node.start = type_, self.data.cursor.pos
        value = super().declared(type_)
        node.data, node.stop = self.data.cursor.data, self.data.cursor.pos
        return value

    def _marked(self, type_: FieldType, nullable: bool) -> Any:
        node, count = self.node, len(self._objects)
        self._by_index += [node] * (count + 1 - len(self._by_index))
        self._by_index[count] = node
        return super()._marked(type_, nullable)

    def _seen(self, index: int, erased: str, at: int) -> Any:
        value = super()._seen(index, erased, at)
        self.node.original, self.node.null = self._by_index[index], False
        return value

    def _body(self, type_: FieldType) -> Any:
        node = self.node
        node.null, node.start = False, self.data.cursor.pos
        value = super()._body(type_)
        node.data, node.stop = self.data.cursor.data, self.data.cursor.pos
        return value

    def at_java_stream(self, serializer: str) -> bool:
        found = super().at_java_stream(serializer)
        if found:
            self.node.body = JAVA_STREAM
        return found

    def java_object(self, serializer: str) -> JavaValue:
        self.node.java = super().java_object(serializer)
        return self.node.java

    def constant(self, enum: UserClass) -> str | None:
        if self.node.body is None:
            self.node.body = CONSTANT
        return super().constant(enum)

    def fields(self, described: UserClass, args: tuple[FieldType, ...]) -> KryoObject:
        node = self.node
        node.body, node.described = FIELDS, described
        return super().fields(described, args)


def _recorded(body: Body) -> Body:
    """A reader that notes that it read the body of the object at hand."""

    @wraps(body)
    def read(w: Walker, type_: FieldType) -> Any:
        if isinstance(w, _Recorder) and w.node.body is None:
            w.node.body = body
        return body(w, type_)

    return read


def _like(w: Walker, like: str, type_: FieldType) -> Any:
    if isinstance(w, _Recorder):
        in_order = like in SORTED_FORMS and w.guesses.sorted(type_.name)
        w.node.body = SORTED_FORMS[like] if in_order else FORMS[like]
    return BODIES.like(w, like, type_)


def _own(name: str, body: Body) -> Body:
    def read(w: Walker, type_: FieldType) -> Any:
        if isinstance(w, _Recorder):
            w.node.own, w.node.body = name, body
        return body(w, type_)

    return read


def _all(bodies: Mapping[str, Body]) -> dict[str, Body]:
    return {name: _recorded(body) for name, body in bodies.items()}


_RECORDED: BodyReaders = replace(
    BODIES,
    by_class=_all(BODIES.by_class),
    array=_recorded(BODIES.array),
    like=_like,
    scala=_all(BODIES.scala),
    chill=_all(BODIES.chill),
    scala_by_name=_all(BODIES.scala_by_name),
    singleton=_recorded(BODIES.singleton),
    by_serializer={name: _own(name, body) for name, body in BODIES.by_serializer.items()},
)


@dataclass(frozen=True)
class RecordedValue:
    """A value: its tree, and what is known of classes after reading it.

    Attributes:
        root: The object, which has its class.
        plain: What `read_kryo` returns for it.
        is_final: Whether a class is final; None where neither a description nor the bytes say so.
    """

    root: Node
    plain: Any
    is_final: Callable[[FieldType], bool | None]


def record_kryo(cursor: Cursor, setting: KryoSetting, whole: bool) -> RecordedValue:
    """Read one value of Kryo.writeClassAndObject as a tree. Raises as `read_kryo`."""
    guesses = Guesses()
    made: list[_Recorder] = []

    def walker(data: KryoInput) -> Walker:
        made.append(_Recorder(data, setting, guesses))
        return made[-1]

    value = read_guessing(cursor, setting, whole, guesses, walker)
    found = next(one for one in made if one.value is value and one.end == cursor.pos)
    return RecordedValue(found.root, value, found.is_final)
