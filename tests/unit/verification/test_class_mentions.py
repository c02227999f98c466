"""User classes are found in serializers of every kind, and skeletons name those that need a description."""

from __future__ import annotations

import pytest

from stateproc.serializers import LayoutContext
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.verification.class_mentions import MentionedClass, Readability, class_skeleton, is_user_class, mentions
from stateproc.verification.problem import Problem, Severity
from tests.helpers.fixtures import CLASSES, fixtures


@pytest.mark.parametrize(
    ("name", "is_users"),
    [
        ("com.acme.Order", True),
        ("[Lcom.acme.Order;", True),
        ("[[Lcom.acme.Order;", True),
        ("java.util.ArrayList", False),
        ("[Ljava.lang.String;", False),
        ("[I", False),
        ("org.apache.flink.types.Row", False),
        ("scala.Tuple2", False),
    ],
)
def test_classes_of_java_scala_and_flink_are_not_the_users(name: str, is_users: bool) -> None:
    assert is_user_class(name) is is_users


def kryo(serializer: Kryo, classes: dict[str, object] | None = None) -> dict[str, Readability]:
    found = mentions(serializer, LayoutContext(classes=classes or {}))
    return {item.class_name: item.readability for item in found}


def test_kryo() -> None:
    registered = Kryo("com.acme.Order", ("com.acme.Order", "com.acme.Item", "java.util.BitSet"))
    assert kryo(registered) == {
        "com.acme.Order": Readability.IF_DESCRIBED,
        "com.acme.Item": Readability.IN_VALUES,
    }
    described = {"com.acme.Order": {"id": "long"}, "com.acme.Item": {"id": "long"}}
    assert set(kryo(registered, described).values()) == {Readability.READABLE}
    own = Kryo("com.acme.Order", (), (("com.acme.Order", "com.acme.OrderSerializer"),))
    assert kryo(own) == {"com.acme.Order": Readability.NOT}
    assert kryo(Kryo("java.util.List")) == {}


def test_each_class_is_listed_once_with_all_its_uses() -> None:
    fixture = next(item for item in fixtures() if item.name == "1.20/edges-hashmap-canonical")
    found = fixture.open().classes()
    by_name = {item.class_name: item for item in found}
    assert len(by_name) == len(found)
    assert by_name["fixtures.Click"].serializer == "Avro"
    assert by_name["fixtures.Edges$Color"].serializer == "enum"
    assert [name for name, _ in by_name["fixtures.Edges$Color"].fields]
    assert [item.readability for item in found][:2] == [Readability.IF_DESCRIBED, Readability.READABLE]
    assert {item.readability for item in fixture.open(classes=CLASSES).classes()} == {Readability.READABLE}


def test_arrays_are_described_by_their_class() -> None:
    item = MentionedClass("[Lcom.acme.Order;", "Kryo", Readability.IF_DESCRIBED, ())
    assert class_skeleton([item]) == {"com.acme.Order": {"fieldName": "type"}}


@pytest.mark.parametrize(
    ("advice", "skeleton"),
    [
        (
            'describe it with all its fields: classes={"com.acme.A": {"a": "int", "b": "String", …}} (an enum as …)',
            {"com.acme.A": {"fieldName": "type"}},
        ),
        (
            "describe it: classes={'com.acme.B$C': {'field': 'type', …}} with all",
            {"com.acme.B$C": {"fieldName": "type"}},
        ),
        ('describe it: classes={"com.acme.E": ["FIRST", "SECOND", …]}', {"com.acme.E": ["FIRST", "SECOND"]}),
        ("restore it from a copy", {}),
    ],
)
def test_classes_that_only_values_name(advice: str, skeleton: dict[str, object]) -> None:
    assert class_skeleton([], [Problem(Severity.UNREADABLE, "?", advice)]) == skeleton
