"""Hash codes of generated hashCode methods: values that JVMs gave, and names that stand for several formulas."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stateproc.errors import InvalidOption
from stateproc.keygroups.class_hashes import class_hashes
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.java.scalars import LONG, SCALARS, Scalar
from stateproc.serializers.java.structs import EnumOf
from stateproc.serializers.pojo.serializer import Pojo
from stateproc.serializers.scala import CaseClass, OptionOf

BOOLEAN, DOUBLE, FLOAT, INT, STRING = (
    Scalar(*next(row for row in SCALARS if row[0] == name)) for name in ("Boolean", "Double", "Float", "Int", "String")
)
EXACT = LayoutContext(temporal="exact")
SIGNED = 2**32


def signed(code: int) -> int:
    return (code + 2**31) % SIGNED - 2**31


def codes(serializer: Serializer, named: str, rows: list[dict[str, object] | None]) -> list[list[int]]:
    keys = pa.array(rows, serializer.layout(EXACT).arrow_type)
    return [one.codes(keys).tolist() for one in class_hashes(serializer, named, EXACT)]


def pojo(**fields: Serializer) -> Pojo:
    return Pojo("com.acme.Key", tuple(sorted(fields.items())))


NAMED = pojo(n=INT, name=STRING)
ROWS: list[dict[str, object] | None] = [{"name": "ab", "n": 7}, {"name": None, "n": -1}]
AB = 31 * 97 + 98  # "ab".hashCode()


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("Objects.hash:name,n", [31 * (31 + AB) + 7, 31 * 31 - 1]),
        ("Objects.hash", [31 * (31 + 7) + AB, 31 * (31 - 1)]),
        ("record:name,n", [31 * AB + 7, -1]),
        ("kotlin:name,n", [31 * AB + 7, -1]),
        ("lombok:n,name", [59 * (59 + 7) + AB, 59 * (59 - 1) + 43]),
        ("Objects.hash:n", [31 + 7, 31 - 1]),
    ],
)
def test_fields_are_joined_in_the_order_that_is_given(named: str, expected: list[int]) -> None:
    assert codes(NAMED, named, ROWS) == [[signed(code) for code in expected]]


def test_the_order_of_a_description_goes_before_the_alphabet() -> None:
    context = LayoutContext(temporal="exact", classes='{"com.acme.Key": {"name": "string", "n": "int"}}')
    (found,) = class_hashes(NAMED, "record", context)
    assert [each.index for each in found.fields] == [1, 0]


def test_booleans_of_lombok_and_older_kotlin_have_two_formulas_each() -> None:
    key = pojo(a=BOOLEAN, b=INT)
    rows: list[dict[str, object] | None] = [{"a": True, "b": 1}, {"a": False, "b": 1}]
    assert codes(key, "lombok", rows) == [
        [59 * (59 + 79) + 1, 59 * (59 + 97) + 1],
        [59 * (59 + 1231) + 1, 59 * (59 + 1237) + 1],
    ]
    assert codes(key, "kotlin", rows) == [[32, 1], [31 * 1231 + 1, 31 * 1237 + 1]]
    assert codes(key, "record", rows) == [[31 * 1231 + 1, 31 * 1237 + 1]]


@pytest.mark.parametrize(
    ("first", "second", "row", "scala_2_12", "scala_2_13"),
    [
        (STRING, INT, ("a", 1), 128003929, -1734940110),
        (DOUBLE, DOUBLE, (1.5, 4294967296.0), 1819410469, -1870607642),
        (DOUBLE, DOUBLE, (float("inf"), 9.3e18), -1758470848, -1527578221),
        (DOUBLE, DOUBLE, (2.0**63, -(2.0**63)), 1433239400, 288279919),
        (FLOAT, FLOAT, (2.0**63, 1e30), 859256964, 1916913537),
        (DOUBLE, DOUBLE, (float("nan"), 0.1), -554205955, 2080454920),
        (OptionOf(INT), OptionOf(LONG), (None, 3), -194949262, 829245706),
    ],
)
def test_hashes_of_tuples_are_those_of_scala(
    first: Serializer, second: Serializer, row: tuple[object, object], scala_2_12: int, scala_2_13: int
) -> None:
    """The numbers are what ``hashCode`` of such tuples gives with the libraries of Scala 2.12.7 and 2.13.18."""
    rows: list[dict[str, object] | None] = [{"_1": row[0], "_2": row[1]}]
    assert codes(CaseClass("scala.Tuple2", (first, second)), "scala", rows) == [[scala_2_12], [scala_2_13]]


def test_the_name_of_the_class_counts_without_package_and_specialisation() -> None:
    specialised = CaseClass("scala.Tuple2$mcII$sp", (INT, INT))
    plain = CaseClass("scala.Tuple2", (INT, INT))
    row: list[dict[str, object] | None] = [{"_1": 1, "_2": 2}]
    assert codes(specialised, "scala", row) == codes(plain, "scala", row)
    nested = CaseClass("a.Outer$Key", (INT, INT)), CaseClass("b.Key", (INT, INT)), CaseClass("b.Kez", (INT, INT))
    first, second, third = (codes(each, "scala-2.13", row) for each in nested)
    assert first == second != third


def test_scala_hashes_equal_numbers_alike() -> None:
    row: list[dict[str, object] | None] = [{"_1": -5}]
    expected = codes(CaseClass("K", (INT,)), "scala", row)
    for number in (LONG, DOUBLE, FLOAT):
        assert codes(CaseClass("K", (number,)), "scala", row) == expected
    large: list[dict[str, object] | None] = [{"_1": 2**40}]
    as_decimal: list[dict[str, object] | None] = [{"_1": 2.0**40}]
    as_long = codes(CaseClass("K", (LONG,)), "scala", large)
    assert codes(CaseClass("K", (DOUBLE,)), "scala", as_decimal) == as_long
    assert codes(CaseClass("K", (FLOAT,)), "scala", as_decimal) == as_long
    half: list[dict[str, object] | None] = [{"_1": 0.5}, {"_1": float("nan")}, {"_1": float("inf")}]
    assert codes(CaseClass("K", (DOUBLE,)), "scala", half)[0][0] == codes(CaseClass("K", (FLOAT,)), "scala", half)[0][0]


def test_options_and_case_classes_within_keys() -> None:
    key = CaseClass("K", (OptionOf(INT), CaseClass("scala.Tuple1", (INT,))))
    (old, new) = codes(key, "scala", [{"_1": None, "_2": {"_1": 1}}, {"_1": 0, "_2": {"_1": 1}}])
    assert old[0] != old[1] and new[0] != new[1] and old != new


@pytest.mark.parametrize("named", ["Objects.hash", "record", "lombok", "kotlin"])
def test_a_field_without_a_hash_of_its_value_is_refused(named: str) -> None:
    key = pojo(kind=EnumOf("com.acme.Kind", ((0, "A"),)), n=INT)
    with pytest.raises(InvalidOption, match=r"the field 'kind' of Pojo Key has no hash that .* could join"):
        class_hashes(key, named, EXACT)
    assert class_hashes(key, f"{named}:n", EXACT)


def test_unknown_names_and_fields_are_errors() -> None:
    with pytest.raises(InvalidOption, match="no hash function is called 'groovy'") as e:
        class_hashes(NAMED, "groovy", EXACT)
    assert "record, kotlin, lombok, scala" in str(e.value)
    with pytest.raises(InvalidOption, match="has no field 'm' that record could hash") as e:
        class_hashes(NAMED, "record:name,m", EXACT)
    assert "its fields are n, name" in str(e.value)
    with pytest.raises(InvalidOption, match="no fields whose hashes record could join"):
        class_hashes(LONG, "record", EXACT)
