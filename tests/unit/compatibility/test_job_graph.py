"""Parallelism of a job, by what Flink 2.3 printed of it: `tests/vectors/job-graph.tar.xz`."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.compatibility.job_graph import read_job_graph
from stateproc.compatibility.verdicts import CompatibilityCheck, Verdict
from stateproc.errors import InvalidOption
from tests.helpers.fixtures import fixtures
from tests.helpers.flink.job_graph import ARCHIVE

FORMS = ("job", "plan", "execution-plan")
NAMES = {"job": "vertices", "plan": "nodes", "execution-plan": "nodes"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("graph")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(made, filter="data")
    return made / "job-graph"


def check(folder: Path, target: Path, form: str, edit: Callable[[dict[str, Any]], None]) -> CompatibilityCheck:
    """The verdict on the savepoint of the job, whose vertices are edited."""
    value = json.loads((folder / f"{form}.json").read_text())
    for vertex in value.get("plan", value).get(NAMES[form], value.get("vertices", ())):
        edit(vertex)
    target.write_text(json.dumps(value))
    return stateproc.open(str(folder / "savepoint")).check(job=target)


def operator(check: CompatibilityCheck, uid: str) -> Any:
    return next(one for one in check.operators if one.uid == uid)


@pytest.mark.parametrize("form", FORMS)
def test_the_job_itself_restores(folder: Path, tmp_path: Path, form: str) -> None:
    found = check(folder, tmp_path / "job.json", form, lambda vertex: None)
    assert found.restores and [state.verdict for _, state in found.states] == [Verdict.AS_IS] * 3
    assert {one.uid: one.reasons for one in found.operators} == dict.fromkeys(
        ("numbers", "counts", "next", "lasts", "end"), ()
    )


@pytest.mark.parametrize("form", FORMS)
def test_more_subtasks_than_key_groups_are_refused(folder: Path, tmp_path: Path, form: str) -> None:
    def edit(vertex: dict[str, Any]) -> None:
        if vertex["parallelism"] == 3:
            vertex["parallelism"] = 65

    found = check(folder, tmp_path / "job.json", form, edit)
    assert operator(found, "lasts").verdict is Verdict.REFUSED
    assert operator(found, "lasts").reasons == ("the job runs 65 subtasks of it, the snapshot has 64 key groups",)
    assert operator(found, "counts").verdict is Verdict.AS_IS


def test_another_max_parallelism_is_refused(folder: Path, tmp_path: Path) -> None:
    found = check(folder, tmp_path / "job.json", "job", lambda vertex: vertex.update(maxParallelism=32))
    assert operator(found, "counts").verdict is Verdict.REFUSED
    assert "or stateproc rescale --max-parallelism 32 " in operator(found, "counts").fix
    # Flink compares it before it looks at state, also of operators without keys.
    assert operator(found, "numbers").verdict is Verdict.REFUSED
    assert "with max parallelism 64 to new program with max parallelism 32" in operator(found, "numbers").exception


def test_keyed_operators_of_one_vertex_have_to_agree(folder: Path, tmp_path: Path) -> None:
    """As tests/integration/flink/test_max_parallelism.py shows: the vertex gets the number of one of them."""
    writer = SavepointWriter.from_existing_savepoint(None, str(folder / "savepoint"), {"uids": "counts,lasts"})
    moved = writer.with_max_parallelism(128, "lasts").write(tmp_path / "moved")
    value = json.loads((folder / "job.json").read_text())
    vertices = {vertex["name"]: vertex for vertex in value["vertices"]}
    chained = {"id": "0" * 32, "name": " -> ".join(vertices), "parallelism": 2, "maxParallelism": 128}
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"vertices": [chained]}))
    found = stateproc.open(str(moved)).check(job=file)
    for uid in ("counts", "lasts"):
        assert operator(found, uid).verdict is Verdict.REFUSED
        assert "64 of " in operator(found, uid).reasons[0] and "128 of " in operator(found, uid).reasons[0]
    assert stateproc.open(str(folder / "savepoint")).check(job=file).restores


@pytest.mark.parametrize("form", FORMS)
def test_an_operator_that_is_not_found_is_dropped(folder: Path, tmp_path: Path, form: str) -> None:
    def edit(vertex: dict[str, Any]) -> None:
        vertex["id"] = "0" * 32
        for key in ("name", "description", "type", "contents"):
            if key in vertex:
                vertex[key] = vertex[key].replace("last per key", "something else")

    found = check(folder, tmp_path / "job.json", form, edit)
    assert operator(found, "lasts").verdict is Verdict.DROPPED and not found.restores
    assert operator(found, "counts").verdict is Verdict.AS_IS  # By its name.


def test_a_name_of_several_vertices_says_nothing(folder: Path, tmp_path: Path) -> None:
    def edit(vertex: dict[str, Any]) -> None:
        vertex["type"] = vertex["contents"] = "last per key"

    found = check(folder, tmp_path / "job.json", "execution-plan", edit)
    assert "by no name" in operator(found, "lasts").reasons[0]
    assert operator(found, "counts").verdict is Verdict.DROPPED


def test_names_of_chained_operators_are_taken_apart(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    name = "Source: a -&gt; (b -> Sink: c, d)"
    file.write_text(json.dumps({"vertices": [{"id": "0" * 32, "name": name, "parallelism": 1}]}))
    (vertex,) = read_job_graph(str(file))
    assert {"Source: a", "b", "Sink: c", "d"} <= vertex.names
    tree = "Calc(select=[a, b])<br/>:- f(a, b)<br/>:  +- g<br/>+- end: Writer<br/>"
    file.write_text(json.dumps({"nodes": [{"id": "0" * 32, "description": tree, "contents": "", "parallelism": 1}]}))
    (vertex,) = read_job_graph(str(file))
    assert {"Calc(select=[a, b])", "f(a, b)", "g", "end: Writer"} <= vertex.names and "" not in vertex.names


def test_an_operator_without_a_name_is_found_by_its_id_only(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"nodes": [{"id": 1, "type": "", "contents": "", "parallelism": 1000}]}))
    unnamed = next(item for item in fixtures() if item.name == "1.20/tiny-rocksdb-full")
    check = unnamed.open().check(job=file)
    assert check.restores and any("by no name" in one.reasons[0] for one in check.operators if one.states)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '{"nodes": []}', '{"nodes": [3, {"id": 1}]}', '{"vertices": [{"parallelism": true}]}']
)
def test_a_file_that_is_no_job_graph_is_refused(folder: Path, tmp_path: Path, text: str) -> None:
    file = tmp_path / "job.json"
    file.write_text(text)
    with pytest.raises(InvalidOption, match="the job graph cannot be read") as caught:
        stateproc.open(str(folder / "savepoint")).check(job=file)
    assert str(file) in str(caught.value) and "getExecutionPlan()" in str(caught.value)


def test_a_file_that_is_not_there_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="No such file"):
        stateproc.open(str(folder / "savepoint")).check(job=str(tmp_path / "none.json"))
