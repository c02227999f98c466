"""Refusal to carry Kryo state over between Flink 1.x and 2.x, whose Kryo versions are incompatible."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stateproc.errors import UnsupportedSnapshot
from stateproc.flink_versions import release
from stateproc.model.operator import Operator
from stateproc.writers.rewrite.kryo_versions import check_kryo
from tests.helpers.fixtures import FIXTURES, fixtures_in

GENERIC = "edges-generic"


def operator_of(name: str, uid: str) -> Operator:
    return fixtures_in(FIXTURES / name)[0].open().operator(uid)


def refused(operator: Operator, to: str) -> list[str | None]:
    """Return the states that cannot be carried over, found by omitting one after another."""
    found: list[str | None] = []
    while True:
        try:
            check_kryo(operator, release(to), [name for name in found if name])
        except UnsupportedSnapshot as error:
            assert error.where.operator == operator.display
            found.append(error.where.state)
        else:
            return found


@pytest.mark.parametrize("kind", ["hashmap-canonical", "hashmap-checkpoint", "rocksdb-canonical"])
@pytest.mark.parametrize(("written", "to"), [("1.20", "2.3"), ("1.20", "2.0"), ("2.3", "1.20"), ("2.3", "1.13")])
def test_kryo_states_are_refused_between_major_versions(kind: str, written: str, to: str) -> None:
    """Generic types and POJOs with a field of a generic type use Kryo; subclasses of POJOs do not."""
    assert sorted(map(str, refused(operator_of(f"{written}/edges-{kind}", GENERIC), to))) == ["basket", "generic"]


@pytest.mark.parametrize(("written", "to"), [("1.20", "1.13"), ("1.13", "1.20"), ("2.3", "2.0")])
def test_kryo_states_are_carried_over_if_the_kryo_version_is_the_same(written: str, to: str) -> None:
    name = "kitchen-hashmap-canonical" if written == "1.13" else "edges-hashmap-canonical"
    for operator in fixtures_in(FIXTURES / written / name)[0].open().operators:
        assert refused(operator, to) == []


@pytest.mark.parametrize(
    "name", ["edges-hashmap-canonical", "kitchen-hashmap-checkpoint", "operators-rocksdb-canonical"]
)
def test_states_without_kryo_are_carried_over_to_every_release(name: str) -> None:
    for operator in fixtures_in(FIXTURES / "1.20" / name)[0].open().operators:
        if operator.display != GENERIC:
            assert refused(operator, "2.3") == []


def test_an_operator_with_kryo_keys_is_refused() -> None:
    """The key type is common to all states of the operator, so none of them can be carried over."""
    operator = operator_of("1.20/kitchen-hashmap-canonical", "kitchen-string")
    file, header = operator.keyed_files[0], operator.keyed_files[0].header
    assert header is not None and refused(operator, "2.3") == []
    kryo = b"\0\0\0\2" + b"\0\x47org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializerSnapshot"
    file.cache.header = replace(header, key_snapshot=kryo)
    with pytest.raises(UnsupportedSnapshot, match=r"keys of Kryo 2 \(Flink 1\.x\).* Flink 2\.3, whose Kryo 5"):
        check_kryo(operator, release("2.3"), ())
    check_kryo(operator, release("2.3"), [info.name for info in header.states])
