"""Snapshots of one state by several writers: one that describes the values of all, or none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from stateproc import types
from stateproc.flink_versions import DEFAULT
from stateproc.metadata.backend import KEY_VALUE, StateMetaInfo
from stateproc.readers.merged_snapshots import DifferentSerializersError, merged_info, merged_key, merged_proxied
from stateproc.serializers import Serializer, proxied_snapshot, read_proxied
from stateproc.serializers.core.optional_maps import write_optional_map
from stateproc.serializers.java.structs import EnumOf
from stateproc.serializers.kryo.serializer import Kryo, _registration, _utf
from stateproc.serializers.pojo.layouts import Subclass
from stateproc.serializers.pojo.serializer import Pojo
from stateproc.wire import Cursor, Output

STRING, LONG, INT = (types.of(name) for name in ("String", "Long", "Integer"))
BASE = (("id", STRING),)
DOG, CAT, FISH = (
    Subclass(f"a.{name}", Pojo(f"a.{name}", (*BASE, (field, LONG))), None)
    for name, field in (("Dog", "age"), ("Cat", "lives"), ("Fish", "depth"))
)


def event(*subclasses: Subclass) -> Pojo:
    return Pojo("a.Event", BASE, subclasses)


def tagged(*subclasses: Subclass) -> tuple[Subclass, ...]:
    return tuple(replace(one, tag=tag) for tag, one in enumerate(subclasses))


def merged(one: Serializer, other: Serializer) -> Serializer:
    cursor = Cursor(merged_proxied(proxied_snapshot(one, DEFAULT), proxied_snapshot(other, DEFAULT)))
    found = read_proxied(cursor)
    cursor.finish("the snapshot")
    return found


def again(serializer: Serializer) -> Serializer:
    return merged(serializer, serializer)


def test_subclasses_of_either_are_listed_once() -> None:
    assert merged(event(DOG, FISH), event(CAT, DOG)) == again(event(DOG, FISH, CAT))
    assert merged(event(), event(CAT)) == again(event(CAT))
    one, other = (proxied_snapshot(event(*of), DEFAULT) for of in ((DOG, CAT), (CAT,)))
    assert merged_proxied(one, other) == one


def test_subclasses_inside_of_fields_and_subclasses_are_merged() -> None:
    def holder(*inner: Subclass) -> Pojo:
        return Pojo("a.Holder", (("first", event(*inner)), ("name", STRING)))

    assert merged(holder(DOG), holder(CAT)) == again(holder(DOG, CAT))
    pack = [Subclass("a.Pack", Pojo("a.Pack", (*BASE, ("head", event(one)))), None) for one in (DOG, CAT)]
    both = Subclass("a.Pack", Pojo("a.Pack", (*BASE, ("head", event(DOG, CAT)))), None)
    assert merged(event(pack[0]), event(pack[1])) == again(event(both))


@pytest.mark.parametrize(
    "around",
    [
        types.List,
        lambda value: types.Map(STRING, value),
        lambda value: types.Map(value, types.List(value)),
        lambda value: types.Tuple(LONG, value, STRING),
        lambda value: types.Row(LONG, types.List(value)),
    ],
)
def test_subclasses_inside_of_other_serializers_are_merged(around: Callable[[Serializer], Serializer]) -> None:
    assert merged(around(event(DOG)), around(event(CAT))) == again(around(event(DOG, CAT)))


def test_tags_that_agree_are_merged_and_others_are_not() -> None:
    two, three = tagged(DOG, CAT), tagged(DOG, CAT, FISH)
    for one, other in ((two, three), (three, two)):
        assert merged(event(*one), event(*other)) == again(event(*three))
    # One subtask wrote it before the class was registered, by its name.
    assert merged(event(*tagged(DOG)), event(DOG)) == again(event(*tagged(DOG), DOG))
    for other in (tagged(CAT, DOG), tagged(FISH, CAT), tagged(CAT)):
        with pytest.raises(DifferentSerializersError):
            merged(event(*two), event(*other))


def test_other_fields_are_no_learning() -> None:
    wider, typed = (Pojo("a.Event", fields) for fields in ((*BASE, ("n", LONG)), (("id", LONG),)))
    renamed = Pojo("a.Other", BASE)
    for other in (wider, typed, renamed, STRING, types.List(event())):
        with pytest.raises(DifferentSerializersError):
            merged(event(), other)
    with pytest.raises(DifferentSerializersError):
        merged(event(DOG), event(replace(DOG, serializer=Pojo("a.Dog", (*BASE, ("age", INT))))))
    with pytest.raises(DifferentSerializersError):
        merged(types.Tuple(LONG, event(DOG)), types.Tuple(INT, event(CAT)))


def kryo(names: tuple[str, ...], defaults: tuple[str, ...] = ()) -> Kryo:
    out = Output()
    for listed in (names, (), defaults):
        write_optional_map(out, [(name, _utf(name), _registration(name)) for name in listed])
    return Kryo("a.Any", names, settings=bytes(out))


def test_constants_and_registrations_that_were_added_last_are_merged() -> None:
    short, long, other = (
        EnumOf("a.Color", tuple(enumerate(names))) for names in (("RED",), ("RED", "BLUE"), ("BLUE", "RED"))
    )
    assert merged(short, long) == merged(long, short) == again(long)
    with pytest.raises(DifferentSerializersError):
        merged(long, other)
    few, more, swapped = (kryo(names) for names in (("a.X",), ("a.X", "a.Y"), ("a.Y", "a.X")))
    assert merged(few, more) == merged(more, few) == again(more)
    for other in (swapped, kryo(("a.X", "a.Y"), ("a.Default",))):
        with pytest.raises(DifferentSerializersError):
            merged(more, other)


def state(value: Serializer, **options: str) -> StateMetaInfo:
    serializers = {"NAMESPACE_SERIALIZER": STRING, "VALUE_SERIALIZER": value}
    snapshots = {role: proxied_snapshot(one, DEFAULT) for role, one in serializers.items()}
    read = {role: read_proxied(Cursor(data)) for role, data in snapshots.items()}
    return StateMetaInfo("s", KEY_VALUE, {"KEYED_STATE_TYPE": "VALUE", **options}, read, snapshots)


def test_states_and_keys() -> None:
    one, other, both = (state(event(*of)) for of in ((DOG,), (CAT,), (DOG, CAT)))
    assert merged_info(one, other) == both
    assert merged_info(both, other) is both
    with pytest.raises(DifferentSerializersError):
        merged_info(one, state(event(CAT), KEYED_STATE_TYPE="LIST"))
    keys = [(again(event(of)), proxied_snapshot(event(of), DEFAULT)) for of in (DOG, CAT)]
    assert merged_key(*keys[0], *keys[1])[0] == again(event(DOG, CAT))
    assert merged_key(keys[0][0], b"", *keys[0]) == keys[0]
    with pytest.raises(DifferentSerializersError):
        merged_key(keys[0][0], b"", *keys[1])
