"""Names of struct fields that the default type of a column does not store."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import ArrayType, DataType, LongType, StringType, StructType

from stateproc import OperatorBootstrap


def struct(*names: str) -> StructType:
    kind = StructType()
    for name in names:
        kind.add(name, StringType())
    return kind


def frame(value: DataType) -> Any:
    return SimpleNamespace(schema=StructType().add("key", LongType()).add("value", value))


def test_a_default_type_that_loses_names_warns_with_the_state() -> None:
    with pytest.warns(UserWarning, match=r"state 'profile': .* the names name, visits are not stored"):
        OperatorBootstrap().value_state("profile", frame(struct("name", "visits")))
    with pytest.warns(UserWarning, match="state 'orders': .* the names id are not stored"):
        OperatorBootstrap().list_state("orders", frame(ArrayType(struct("id"))))


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (struct("f0", "f1"), None),
        (struct("_1", "_2"), None),
        (StringType(), None),
        (struct("name", "street"), "Row<String, String>"),
        (struct("name", "street"), "Pojo com.acme.Profile {name: String, street: String}"),
    ],
)
def test_types_without_names_and_given_types_do_not_warn(value: DataType, type_: str | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OperatorBootstrap().value_state("profile", frame(value), type=type_)
