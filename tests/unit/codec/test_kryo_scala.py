"""Values of Scala in Kryo 2, against bytes that Flink 1.20.5 wrote with and without flink-scala.

`tests/cases/scala-kryo/src/ScalaValues.java` prints them. What is empty in the last column is refused.
"""

from __future__ import annotations

import pytest

from stateproc.codec.kryo.classes import CHILL_BASE, CHILL_IDS, REGISTRAR_BASE, USER_BASE, registered_class
from stateproc.codec.kryo.reader import read_kryo
from stateproc.codec.kryo.setting import KryoSetting
from stateproc.codec.kryo.values import json_text
from stateproc.errors import CorruptSnapshot, SnapshotError, UnsupportedSnapshot
from stateproc.serializers.java.class_descriptions import parse_classes
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.wire import Cursor
from tests.helpers.paths import TESTS

_CASE = TESTS / "cases" / "scala-kryo"
HOLDER = {
    "Holder": {
        "bd": "scala.BigDecimal",
        "bi": "scala.BigInt",
        "v": "scala.Vector<String>",
        "some": "scala.Some<String>",
        "t3": "scala.Tuple3<Int, Int, Int>",
        "sy": "scala.Symbol",
        "u": "scala.runtime.BoxedUnit",
        "fd": "scala.concurrent.duration.FiniteDuration",
        "left": "scala.util.Left<String, String>",
        "cons": "scala.collection.immutable.$colon$colon<String>",
        "none": "scala.None$",
        "o": "Option<String>",
        "wa": "scala.collection.mutable.WrappedArray<String>",
    }
}


def rows(name: str) -> list[tuple[str, str, bytes, str]]:
    """Return what, class, bytes and JSON text of each value of a table."""
    lines = (_CASE / name).read_text(encoding="utf-8").splitlines()[1:]
    return [(what, cls, bytes.fromhex(data), text) for what, cls, data, text in (line.split("\t") for line in lines)]


def read(
    data: bytes, version: int = 2, registrations: tuple[str, ...] = ("java.lang.Object",), **classes: object
) -> str:
    return json_text(
        read_kryo(Cursor(data), KryoSetting(version, registrations, classes=parse_classes(classes or None)), True)
    )


WITH, WITHOUT = rows("values.tsv"), rows("values-without-flink-scala.tsv")


def test_ids_are_those_of_flink_1() -> None:
    for line in (_CASE / "kryo-ids-1.20.5.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        number, _, name, _ = line.split("\t")
        if CHILL_BASE <= int(number) < USER_BASE:
            assert registered_class(int(number), 2, ()) == name
    assert CHILL_BASE + len(CHILL_IDS) == REGISTRAR_BASE


@pytest.mark.parametrize(
    ("what", "cls", "data", "text"), [row for row in WITH if row[3]], ids=lambda value: str(value)[:30]
)
def test_values_that_flink_scala_wrote(what: str, cls: str, data: bytes, text: str) -> None:
    assert read(data, **HOLDER) == text


@pytest.mark.parametrize(
    ("what", "cls", "data", "text"), [row for row in WITHOUT if row[3]], ids=lambda value: str(value)[:30]
)
def test_values_that_were_written_by_their_fields(what: str, cls: str, data: bytes, text: str) -> None:
    assert read(data) == text


def test_a_value_is_the_same_with_and_without_flink_scala_or_refused() -> None:
    texts = {what: text for what, _, _, text in WITH if text}
    compared = [(what, text) for what, _, _, text in WITHOUT if text and what in texts]
    assert len(compared) > 60
    assert [(what, text) for what, text in compared if text != texts[what]] == []


@pytest.mark.parametrize("data", [row[2] for row in WITHOUT if not row[3]], ids=lambda data: data.hex()[:20])
def test_what_is_written_by_fields_and_not_described_is_refused_and_never_called_damaged(data: bytes) -> None:
    with pytest.raises(UnsupportedSnapshot, match="describe it"):
        read(data)


def test_a_class_of_scala_that_is_described_is_read_by_its_fields() -> None:
    data = next(row[2] for row in WITHOUT if row[0] == "list units")
    cons = {"head": "Object", "tl": "Object"}
    fields = read(data, **{"scala.collection.immutable.$colon$colon": cons, "scala.collection.immutable.Nil$": {}})
    assert fields == '{"head":{},"tl":{"head":{},"tl":{}}}'


def test_a_description_of_what_an_id_shows_to_be_written_otherwise_is_refused() -> None:
    data = bytes.fromhex(
        "01007363616c612e636f6c6c656374696f6e2e696d6d757461626c652e24636f6c6f6e24636f6c6fee0111010301826111010300"
    )
    with pytest.raises(UnsupportedSnapshot, match=r"is described, but the id of 'scala\.Some'"):
        read(data, **{"scala.collection.immutable.$colon$colon": {"head": "Object", "tl": "Object"}})


def test_scala_by_id_and_by_name_in_one_value_is_damage() -> None:
    by_name = bytes.fromhex("01007363616c612e5475706c65b201")  # scala.Tuple2
    with pytest.raises(CorruptSnapshot, match="both by id"):
        read(bytes.fromhex("2701") + by_name + b"\0\0\0")


@pytest.mark.parametrize("number", [*range(9, 73)])
def test_ids_of_chill_belong_to_no_class_in_kryo_5(number: int) -> None:
    registrations = tuple(f"a.R{i}" for i in range(80))
    with pytest.raises(CorruptSnapshot, match=f"Kryo class id {number}, which Kryo 5 gives to no class"):
        read(bytes([number + 2, 1, 1, 1]), 5, registrations, **{name: {"value": "Object"} for name in registrations})


def test_an_id_of_chill_is_never_a_registration() -> None:
    registrations = tuple(f"a.R{i}" for i in range(80))
    described = {name: {"value": "Object"} for name in registrations}
    assert read(bytes.fromhex("11010301826b"), 2, registrations, **described) == '"k"'
    assert read(bytes.fromhex("57010301826b"), 2, registrations, **described) == '{"value":"k"}'
    column = Kryo("java.lang.Object", registrations).decode(bytes.fromhex("11010301826b"), classes=described, kryo=2)
    assert column == "k"


def test_constants_of_an_enumeration_are_named_where_it_is_described() -> None:
    data = next(row[2] for row in WITH if row[0] == "enumeration tuple")
    for name in ("MyEnum", "MyEnum$"):
        assert read(data, **{name: ["A", "B"]}) == '{"_1":"A","_2":"B"}'
    with pytest.raises(SnapshotError, match="value 1 of MyEnum, which has 1"):
        read(data, MyEnum=["A"])


def test_every_truncation_is_refused() -> None:
    for what, _, data, text in WITH:
        for end in range(len(data) if text else 0):
            with pytest.raises(SnapshotError):
                print(what, end, read(data[:end], **HOLDER))


def test_a_nested_manifest_is_bounded() -> None:
    name = b"scala.reflect.ManifestFactory$ClassTypeManifest"
    data = b"\x01\x00" + name[:-1] + bytes([name[-1] | 0x80]) + b"\x01" + bytes.fromhex("0001030001") * 5000 + b"\x01"
    with pytest.raises(SnapshotError):
        read(data)


@pytest.mark.parametrize("name", sorted(HOLDER["Holder"]))
@pytest.mark.parametrize("what", ["fields", "nulls"])
def test_a_field_of_a_class_that_is_not_as_final_as_described_never_gives_another_value(name: str, what: str) -> None:
    """Null is one byte whether the class is final or not, and the value is the same: there the bytes do not show it."""
    data, text = next((row[2], row[3]) for row in WITH if row[0] == what)
    for modifier in ("final", "open"):
        fields = HOLDER["Holder"] | {name: f"{modifier} {HOLDER['Holder'][name]}"}
        try:
            found = read(data, Holder=fields)
        except SnapshotError:
            continue
        assert found == text


@pytest.mark.parametrize("step", [-1, 1, 9])
def test_ids_of_registrations_from_another_base_are_refused(step: int) -> None:
    """Registrations begin at 85: an id from another base is of another class, or of none."""
    registrations = ("a.First",)
    for count in range(1, 12):
        data = bytes([USER_BASE + step + 2, 1]) + b"\x03\x01\x81" * count
        with pytest.raises(SnapshotError):
            read(data, 2, registrations, **{"a.First": {f"f{i}": "Object" for i in range(count)}})
