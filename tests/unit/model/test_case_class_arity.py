"""Whether case classes of flink-scala-api begin with their number of fields is found out from the values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter, types
from stateproc.errors import InvalidOption
from stateproc.serializers.core.base import CaseClassArity, Undecodable
from stateproc.serializers.flinkx.case_classes import FlinkxCaseClass
from stateproc.serializers.flinkx.collections import ScalaCollection
from stateproc.snapshot.snapshot import Snapshot

FORMATS = ("canonical", "native-hashmap", "native-rocksdb")
USER = FlinkxCaseClass("com.acme.User", (types.STRING, types.INT))
NUMBERS = ScalaCollection("org.apache.flinkx.api.serializer.ListSerializer", "java.lang.Integer", types.INT, 1)
BOX = FlinkxCaseClass("com.acme.Box", (NUMBERS,))
"""Of an empty list: i32 1 and four zeros, which without the number of fields is a list of 0."""


@pytest.fixture
def without_counts(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Values are written as by flink-scala-api 1.1.4."""
    monkeypatch.setattr(FlinkxCaseClass, "counts_fields", lambda self, ctx: False)
    return monkeypatch


def written(path: Path, form: Any, state: OperatorBootstrap) -> Snapshot:
    SavepointWriter.new_savepoint(None, 16).with_format(form).with_operator("op", state).write(path)
    return stateproc.open(path, uids=["op"])


def users(count: int = 40) -> pa.Table:
    values = [{"_1": f"n{key}", "_2": key} for key in range(count)]
    return pa.table({"key": list(range(count)), "value": pa.array(values, USER.arrow_type)})


def by_key(snapshot: Snapshot, state: str) -> dict[Any, Any]:
    rows = snapshot.operator("op").state(state).to_arrow().to_pylist()
    return {str(row["key"]): row["value"] for row in rows}


def expected() -> dict[str, Any]:
    return {str(row["key"]): row["value"] for row in users().to_pylist()}


@pytest.mark.parametrize("form", FORMATS)
def test_values_with_the_number_of_fields(tmp_path: Path, form: str) -> None:
    state = OperatorBootstrap().value_state("user", users(), type=USER)
    found = written(tmp_path / "s", form, state)
    assert found.operator("op").options.case_class_arity is CaseClassArity.PRESENT
    assert by_key(found, "user") == expected()


@pytest.mark.parametrize("form", FORMATS)
def test_values_without_the_number_of_fields(tmp_path: Path, form: str, without_counts: pytest.MonkeyPatch) -> None:
    state = OperatorBootstrap().value_state("user", users(), type=USER)
    written(tmp_path / "s", form, state)
    without_counts.undo()
    found = stateproc.open(tmp_path / "s", uids=["op"])
    assert found.operator("op").options.case_class_arity is CaseClassArity.ABSENT
    assert by_key(found, "user") == expected()


def boxes(*lists: list[int]) -> pa.Table:
    values = pa.array([{"_1": items} for items in lists], BOX.arrow_type)
    return pa.table({"key": list(range(len(lists))), "value": values})


@pytest.mark.parametrize("form", FORMATS)
def test_values_that_fit_both_layouts_are_an_error_until_the_user_says_which(tmp_path: Path, form: str) -> None:
    state = OperatorBootstrap().value_state("box", boxes([], []), type=BOX)
    found = written(tmp_path / "s", form, state)
    with pytest.raises(Undecodable, match="fit both layouts"):
        found.operator("op").state("box").to_arrow()
    for arity, items in (("present", []), ("absent", [0])):
        chosen = stateproc.open(tmp_path / "s", uids=["op"], case_class_arity=arity)
        assert by_key(chosen, "box") == {"0": {"_1": items}, "1": {"_1": items}}


@pytest.mark.parametrize("form", FORMATS)
def test_one_value_or_another_state_shows_it_for_all(tmp_path: Path, form: str) -> None:
    state = OperatorBootstrap().value_state("box", boxes([], [5, 6, 7]), type=BOX)
    assert by_key(written(tmp_path / "one", form, state), "box") == {"0": {"_1": []}, "1": {"_1": [5, 6, 7]}}
    state = OperatorBootstrap().value_state("box", boxes([], []), type=BOX)
    state.value_state("user", users(), type=USER)
    assert by_key(written(tmp_path / "other", form, state), "box") == {"0": {"_1": []}, "1": {"_1": []}}


def test_other_values_of_the_option_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "s", "canonical", OperatorBootstrap().value_state("user", users(), type=USER))
    with pytest.raises(InvalidOption, match="case_class_arity"):
        stateproc.open(tmp_path / "s", case_class_arity="found")
