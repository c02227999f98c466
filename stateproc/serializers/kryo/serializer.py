"""Read and write snapshots of KryoSerializer (org.apache.flink.api.java.typeutils.runtime.kryo)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from stateproc.codec import ops
from stateproc.codec.errors import BadValue, Unrepresentable
from stateproc.codec.kryo.avro import AVRO_SCHEMA, AVRO_TYPES
from stateproc.codec.kryo.classes import PRIMITIVE_IDS, REGISTRAR_IDS, UnknownId
from stateproc.codec.kryo.collections import COLLECTION_BODIES
from stateproc.codec.kryo.forms import ABSTRACT, KNOWN_CLASSES
from stateproc.codec.kryo.library_serializers import FIELD_SERIALIZERS
from stateproc.codec.kryo.own_serializers import ANY_INSTANCE, refuse_own_serializer
from stateproc.codec.kryo.reader import BODIES, OtherWriter, read_kryo, readable_serializers
from stateproc.codec.kryo.setting import KryoSetting
from stateproc.codec.kryo.types import FieldType, UserClass, class_of_name
from stateproc.codec.kryo.walk_errors import CorruptMessage, OtherMessage, UndescribedClass, how_to_describe
from stateproc.codec.layouts import Blob, Hosted, Layout
from stateproc.errors import CorruptSnapshot, SnapshotError, UnsupportedSnapshot
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import LayoutContext, Serializer, Undecodable, simple_name
from stateproc.serializers.core.optional_maps import OptionalEntry, read_optional_map, write_optional_map
from stateproc.serializers.core.registry import expect_version, snapshot, write_head
from stateproc.serializers.java.class_descriptions import parse_classes
from stateproc.serializers.kryo.columns import KryoColumn, column_of, is_scala
from stateproc.serializers.kryo.conversion import ConvertedKryo, Rewritten, is_flat
from stateproc.serializers.kryo.description_check import explain_column, explain_mismatch
from stateproc.serializers.kryo.programs import KryoValue, has_program
from stateproc.wire import Cursor, Output
from stateproc.wire.java_stream import JavaObject, read_java_object

# The fields of classes that connectors of Flink let Kryo write, so that users need not describe them.

_FIELDS = {
    "final org.apache.flink.streaming.connectors.kafka.internals.KafkaTopicPartition implements java.io.Serializable": {
        "topic": "String",
        "partition": "int",
        "cachedHash": "int",
    },
    "org.apache.flink.streaming.connectors.kinesis.model.SequenceNumber implements java.io.Serializable": {
        "sequenceNumber": "String",
        "subSequenceNumber": "long",
        "cachedHash": "int",
    },
    "org.apache.flink.core.fs.Path implements java.io.Serializable, org.apache.flink.core.io.IOReadableWritable": {
        "uri": "java.net.URI",
    },
}

CONNECTOR_CLASSES: Mapping[str, UserClass] = parse_classes(_FIELDS)
"""Descriptions by the names of the classes."""


def with_connector_class(name: str, classes: Mapping[str, UserClass]) -> Mapping[str, UserClass]:
    """Return the user's descriptions and that of a connector's class, unless the user describes it."""
    known = CONNECTOR_CLASSES.get(name)
    return classes if known is None or name in classes else {**classes, name: known}


_SNAPSHOT = "org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializerSnapshot"
# What Flink registers where its Avro format is not on the class path, so that ids are the same with and without.
_AVRO_ARRAY = "org.apache.avro.generic.GenericData$Array"
_NO_AVRO = "org.apache.flink.api.java.typeutils.runtime.kryo.Serializers$DummyAvro"
HOLDERS = {
    2: b"org.apache.flink.api.common.ExecutionConfig$SerializableSerializer",
    5: b"org.apache.flink.api.common.SerializableSerializer",
}
"""The class that holds a serializer which is registered as an object, by Kryo's version."""
_WITH_ID = frozenset((*PRIMITIVE_IDS, *REGISTRAR_IDS))
"""Classes that Kryo and Flink register before those of the job."""
_KIND_NONE, _KIND_CLASS, _KIND_INSTANCE = 0, 1, 2
# Types that say little about the classes of their values: every value names its own.
_OPEN_TYPES = frozenset(
    [f"java.lang.{name}" for name in ("Object", "Number", "Comparable", "CharSequence", "Iterable", "Throwable")]
    + [f"java.util.{name}" for name in ("Collection", "List", "Set", "SortedSet", "NavigableSet", "Queue", "Deque")]
    + [f"java.util.{name}" for name in ("Map", "SortedMap", "NavigableMap", "EnumSet", "AbstractList", "AbstractMap")]
    + ["java.io.Serializable", "java.nio.ByteBuffer", "java.time.ZoneId", "java.util.concurrent.ConcurrentMap"]
    + [*ABSTRACT]
)
_MAP_BODIES = tuple(COLLECTION_BODIES[f"java.util.{name}"] for name in ("HashMap", "TreeMap"))


@dataclass(frozen=True)
class Kryo(Serializer):
    """KryoSerializer: ``registrations`` are classes in the order of their ids, the type itself first.

    ``serializers``: (class, Kryo serializer class) for classes that are registered with a serializer of their own.
    ``defaults``: (class or interface, Kryo serializer class) of default serializers, in the order of addition.
    ``declared``: the type with its arguments, where a description of the enclosing class declares it (Flink's snapshot
    does not). ``settings``: the maps of the snapshot as they were read; without them a snapshot is written as by a job
    that registers nothing and has no Avro format on its class path.
    """

    class_name: str
    registrations: tuple[str, ...] = ()
    serializers: tuple[tuple[str, str], ...] = ()
    declared: FieldType | None = None
    settings: bytes = field(default=b"", compare=False)
    defaults: tuple[tuple[str, str], ...] = ()

    def layout(self, ctx: LayoutContext) -> Layout:
        setting = self.setting(ctx)
        if ctx.convert_to not in (0, ctx.kryo):
            return self._by_columns(setting, ctx) or ConvertedKryo(setting, ctx.convert_to, ctx.tail)
        if not self._known(setting):
            if ctx.has_bytes:
                return Blob(ops.LENGTH_REST)
            self._refuse_own_serializer(setting)
            if self.class_name in AVRO_TYPES:
                raise Undecodable(
                    f"Kryo values of class {self.class_name!r}, whose schema the job wrote by the fields of its class, "
                    "without flink-avro's serializer of schemas",
                    advice="flink-avro on the job's class path writes schemas as text, with which values can be read",
                )
            # Values name their classes, so that those of an interface need no description of it.
            if not setting.classes:
                raise Undecodable(
                    f"Kryo values of class {self.class_name!r}: the bytes alone do not show where they end",
                    advice=f"{how_to_describe(self.class_name)}; of an interface describe the classes of its values",
                )
        type_ = self.declared or class_of_name(self.class_name)
        _check_known(type_, setting.classes)
        column = column_of(type_, setting, ctx.fidelity)
        read = partial(_read, setting=setting, column=column, whole=ctx.tail)
        if ctx.tail and column.kind == "binary" and setting.serializer_of(self.class_name).certain is None:
            read = partial(_read_or_bytes, read=read, opaque=ctx.opaque)
        planned = KryoValue(type_, column, setting, ctx.fidelity, read, ctx.tail)
        label = f"Kryo values of class {self.class_name!r}"
        return planned if has_program(planned) else Hosted(read, column.type, 1, column.python, label)

    def _by_columns(self, setting: KryoSetting, ctx: LayoutContext) -> Layout | None:
        """Return the layout that converts values as columns; None if that is not exact."""
        if ctx.by_objects or not is_flat(class_of_name(self.class_name), setting):
            return None
        read = self.layout(replace(ctx, convert_to=0))
        written = self.layout(replace(ctx, kryo=ctx.convert_to, convert_to=0))
        is_planned = isinstance(read, KryoValue) and isinstance(written, KryoValue)
        return Rewritten(read, written) if is_planned and read.arrow_type == written.arrow_type else None

    def is_known(self, ctx: LayoutContext) -> bool:
        """Whether values can be decoded; if not, they are bytes."""
        return self._known(self.setting(ctx))

    def has_open_values(self, ctx: LayoutContext) -> bool:
        """Whether values can be, or hold, objects of classes that only they name."""
        if not self.is_known(ctx):
            return False
        try:
            column = column_of(self.declared or class_of_name(self.class_name), self.setting(ctx), ctx.fidelity)
        except SnapshotError:
            return False  # a description that does not fit; reading says so
        pending = [column]
        while pending:
            column = pending.pop()
            if column.kind == "json":
                return True
            pending += (child for _, child in column.children)
        return False

    def setting(self, ctx: LayoutContext) -> KryoSetting:
        """Return what Kryo values are decoded with."""
        classes = with_connector_class(self.class_name, parse_classes(ctx.classes))
        serializers = dict(self.serializers)
        # Kryo.register(Class, int) leaves a class alone that has an id already, and the next one gets its id.
        registrations = tuple(name for name in self.registrations if name not in _WITH_ID or name in serializers)
        setting = KryoSetting(ctx.kryo, registrations, serializers, classes, self.defaults)
        if ctx.proto is None:
            return setting
        return replace(setting, messages=ctx.proto.messages, message_set=ctx.proto.name)

    def _refuse_own_serializer(self, setting: KryoSetting) -> None:
        """Raise Undecodable if serializers without readers may have written the values."""
        choice = setting.serializer_of(self.class_name)
        if choice.own and not readable_serializers(self.class_name, setting):
            what = f"Kryo values of class {self.class_name!r}"
            error = refuse_own_serializer(what, self.class_name, choice.own, choice.certain is not None)
            raise Undecodable(error.message, advice=error.advice)

    def _known(self, setting: KryoSetting) -> bool:
        """Whether values can be decoded, judged by the static type."""
        name = self.class_name
        if name in _OPEN_TYPES:
            return True
        if setting.serializer_of(name).own:
            readers = readable_serializers(name, setting)
            return any(reader not in FIELD_SERIALIZERS or name in setting.classes for reader in readers)
        if name in AVRO_TYPES:
            return setting.serializer_of(AVRO_SCHEMA).certain is not None
        if name.startswith("[") or name in setting.classes:
            return True
        if setting.version < 5 and is_scala(name):
            return True
        return name in BODIES.by_class or name in KNOWN_CLASSES or name.endswith(("Exception", "Error"))

    @property
    def type_name(self) -> str:
        return f"Kryo {simple_name(self.class_name)}"

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_head(out, _SNAPSHOT, 2, release)
        out.utf(self.class_name)
        if self.settings:
            out.raw(_settings_of(self.settings, self.class_name, release))
            return
        own = (self.class_name, _utf(self.class_name), _registration(self.class_name))
        write_optional_map(out, [own, (_AVRO_ARRAY, _utf(_AVRO_ARRAY), _no_avro())])
        write_optional_map(out, [])
        write_optional_map(out, [])


def _check_known(type_: FieldType, classes: Mapping[str, UserClass]) -> None:
    """Refuse descriptions by fields of Maps and Collections: a struct of their fields cannot be read from the bytes."""
    checked: set[str] = set()
    pending = [type_]
    while pending:
        type_ = pending.pop()
        pending += type_.args
        described = classes.get(type_.name)
        if described is None or type_.name in checked:
            continue
        checked.add(type_.name)
        body = COLLECTION_BODIES.get(type_.name)
        if body is not None and described.like is None:
            form = "map<String, Object>" if body in _MAP_BODIES else "list<Object>"
            raise Undecodable(
                f"{type_.name!r} is described by its fields, but it is a Map or a Collection: Kryo writes what it "
                "holds, not its fields",
                advice="remove its description (values are JSON text then), or say what it holds: "
                f'"{type_.name}": "{form}"',
            )
        pending += (part for _, part in described.fields)
        pending += map(FieldType, described.alternatives)


def _utf(text: str) -> bytes:
    out = Output()
    out.utf(text)
    return bytes(out)


def _registration(class_name: str, serializer: str | None = None) -> bytes:
    """Encode KryoRegistration: utf class, i32 kind, the serializer's class if it has one."""
    out = Output()
    out.utf(class_name)
    out.i32(_KIND_NONE if serializer is None else _KIND_CLASS)
    if serializer is not None:
        out.utf(serializer)
    return bytes(out)


def _no_avro() -> bytes:
    return _registration(f"{_NO_AVRO}RegisteredClass", f"{_NO_AVRO}KryoSerializerClass")


def _settings_of(settings: bytes, class_name: str, release: Release) -> bytes:
    """Convert the maps of a snapshot to the form that ``release`` reads. Raises UnsupportedSnapshot.

    Flink 1.x and 2.x wrap serializers that are registered as objects, such as Avro's, in different classes.
    """
    foreign = next(holder for kryo, holder in HOLDERS.items() if kryo != release.kryo)
    if foreign not in settings:
        return settings
    cursor, out = Cursor(settings), Output()
    for _ in range(3):
        entries = []
        for entry in read_optional_map(cursor):
            key, value = (
                None if frame is None else bytes(frame.take(frame.remaining)) for frame in (entry.key, entry.value)
            )
            if value is not None and foreign in value:
                if entry.name != _AVRO_ARRAY:
                    raise UnsupportedSnapshot(
                        f"Kryo's type {class_name} has a serializer registered for {entry.name} as an object, which "
                        f"Flink {release} does not read",
                        advice="give the state another type (value_type=…), or leave it out (drop_state)",
                    )
                value = _no_avro()
            entries.append((entry.name, key, value))
        write_optional_map(out, entries)
    return bytes(out)


def _read(cursor: Cursor, *, setting: KryoSetting, column: KryoColumn, whole: bool) -> Any:
    """Decode one Kryo value to a value that pyarrow accepts."""
    at = cursor.pos
    try:
        value = read_kryo(cursor, setting, whole)
    except CorruptMessage:
        raise
    except (CorruptSnapshot, OtherWriter, UndescribedClass, UnknownId) as error:
        explained = explain_mismatch(error, bytes(cursor.data[at : cursor.end]), setting, whole)
        place = cursor.where(at)
        raise explained.at(file=place.file, offset=place.offset) from error
    try:
        return None if value is None else column.arrow(value)
    except Unrepresentable as error:
        raise UnsupportedSnapshot(str(error), where=cursor.where(at), advice=error.advice) from error
    except BadValue as error:
        raise explain_column(error, setting, column).at(file=cursor.file, offset=cursor.base + at) from error


def _read_or_bytes(cursor: Cursor, *, read: Callable[[Cursor], Any], opaque: bool) -> Any:
    """Decode a value of a class that may be a message; where it is none, and ``opaque`` allows it, return its bytes."""
    at = cursor.pos
    try:
        return read(cursor)
    except OtherMessage:
        raise
    except UnsupportedSnapshot as error:
        if not opaque:
            advice = f"{error.advice}; or read it as bytes (opaque='bytes')"
            raise type(error)(error.message, where=error.where, advice=advice) from error
    cursor.pos = at
    return bytes(cursor.take(cursor.remaining))


@snapshot(_SNAPSHOT)
def _read_kryo(cursor: Cursor, version: int) -> Serializer:
    """Read utf type; optional maps of registrations, default serializers, default serializer classes."""
    expect_version(cursor, "KryoSerializerSnapshot", version, 1, 2)
    class_name = cursor.utf()
    at = cursor.pos
    registered = read_optional_map(cursor)
    instances = read_optional_map(cursor)
    by_class = read_optional_map(cursor)
    settings = bytes(cursor.data[at : cursor.pos])
    serializers = {entry.name: own for entry in registered if (own := _own_serializer(entry)) is not None}
    # Flink adds those given as objects first.
    defaults = [(entry.name, _serializer_object(entry.value)) for entry in instances]
    defaults += [(entry.name, ANY_INSTANCE if entry.value is None else entry.value.utf()) for entry in by_class]
    names = tuple(entry.name for entry in registered)
    return Kryo(class_name, names, tuple(serializers.items()), None, settings, tuple(defaults))


def _serializer_object(cursor: Cursor | None) -> str:
    """The class of a serializer that is a Java object: SerializableSerializer, whose field holds it."""
    if cursor is None:
        return ANY_INSTANCE
    try:
        holder = read_java_object(cursor)
    except SnapshotError:
        return ANY_INSTANCE
    serializer = holder.fields.get("serializer") if isinstance(holder, JavaObject) else None
    return serializer.class_name if isinstance(serializer, JavaObject) else ANY_INSTANCE


def _own_serializer(entry: OptionalEntry) -> str | None:
    """Read KryoRegistration: utf class, i32 kind, then the serializer's class or itself as a Java object."""
    if entry.value is None:
        return None
    entry.value.utf()
    kind = entry.value.i32()
    if kind == _KIND_NONE:
        return None
    if kind == _KIND_CLASS:
        return entry.value.utf()
    if kind == _KIND_INSTANCE:
        return _serializer_object(entry.value)
    raise UnsupportedSnapshot(
        f"a Kryo registration of kind {kind}",
        where=entry.value.where(),
        advice="the snapshot is damaged, or of a Flink release newer than this stateproc: upgrade stateproc",
    )
