"""The schema of jobs: it is one, contains every change and state kind, and errors show lines and near names."""

from __future__ import annotations

import inspect

import pytest
from jsonschema import Draft202012Validator

from stateproc.errors import InvalidOption
from stateproc.jobs.job_document import parse_document
from stateproc.jobs.job_schema import job_schema, validate
from stateproc.jobs.state_kinds import STATE_KINDS
from stateproc.writers.bootstrap.operator_bootstrap import OperatorBootstrap
from stateproc.writers.changes import CHANGES

JOB = """\
job: nightly
sources:
  customers: {format: parquet, path: /data/customers}
  db: {format: jdbc, url: "jdbc:x", table: t}
operators:
  - uid: customers
    parallelism: 4
    states:
      - {kind: value, name: profile, source: customers}
changes:
  - rename-operator: {uid: orders, to: orders-v2}
  - drop-in-flight-data:
target: {path: /savepoints/x}
checks:
  - {rows: customers, min: 1}
"""


def test_the_schema_is_one_and_accepts_a_job() -> None:
    Draft202012Validator.check_schema(job_schema())
    validate(parse_document(JOB, "job.yaml"))


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_every_change_is_accepted(change: object) -> None:
    value = {"job": "x", "base": {"path": "p"}, "target": {"path": "t"}}
    sample = dict(change.sample)  # type: ignore[attr-defined]
    document = parse_document("{}")
    accepted = {**value, "changes": [{change.name: sample}]}  # type: ignore[attr-defined]
    validate(type(document)(None, accepted))
    with pytest.raises(InvalidOption, match=r"changes\[0\].*there is no 'unheard_of'"):
        validate(type(document)(None, {**value, "changes": [{change.name: {**sample, "unheard_of": 1}}]}))  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", STATE_KINDS.values(), ids=STATE_KINDS)
def test_the_arguments_of_states_are_those_of_the_bootstrap(kind: object) -> None:
    method = getattr(OperatorBootstrap, kind.method)  # type: ignore[attr-defined]
    names = [name for name in inspect.signature(method).parameters if name not in ("self", "name", "frame", "offsets")]
    assert set(kind.arguments) == set(names)  # type: ignore[attr-defined]
    assert ("name" in inspect.signature(method).parameters) is kind.named  # type: ignore[attr-defined]


def _offsets(offset: str) -> str:
    return f"set-offsets: {{uid: orders, offsets: {{'clicks:0': {offset}}}}}"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("kind: value", "kind: vlue", "line 9: 'vlue' is not accepted here"),
        ("kind: value", "kind: vlue", "did you mean 'value'?"),
        ("format: parquet", "fromat: parquet", "line 3: there is no 'fromat' here"),
        ("format: parquet", "fromat: parquet", "did you mean 'format'?"),
        ("name: profile, ", "", "line 9: 'name' is missing"),
        ("parallelism: 4", "parallelism: 0", "line 7: 0 is less than 1"),
        ("parallelism: 4", "parallelism: many", "line 7: 'many' is not a whole number"),
        ("source: customers}", "source: customers, window: w}", "line 9: there is no 'window' here"),
        ("job: nightly\n", "", "'job' is missing"),
        ("rows: customers, min: 1", "rows: customers", "line 15: neither min nor max is given"),
        ("min: 1", "min: 1, sql: x", "line 15: rows and sql are given both"),
        ("rows: customers, min: 1", "state: customers, min: 1", "line 15: 'uid' is missing"),
        ("customers: {format: parquet, path: /data/customers}", "customers: {sql: x, path: y}", "line 3: 2 keys"),
        ("path: /data/customers}", "path: [a]}", "line 3: ['a'] is not text"),
        ("rename-operator:", "rename-oprator:", "line 11: there is no 'rename-oprator' here"),
        ("rename-operator:", "rename-oprator:", "did you mean 'rename-operator'?"),
        ("to: orders-v2", "two: orders-v2", "line 11: there is no 'two' here"),
        ("path: /savepoints/x", "path: ''", "line 13: '' is not accepted here"),
        ("rows: customers, min: 1", "restores: '2.3', claim_mode: CLAM", "did you mean 'CLAIM'?"),
        ("rows: customers, min: 1", "like: /savepoints/y", "line 15: 'like' is given without 'restores'"),
        ("min: 1", "min: 1, columns: [id]", "line 15: 'columns' is given without 'unique'"),
        ("min: 1", "min: 1, uid: customers", "line 15: 'uid' is given without 'state'"),
        ("min: 1", "min: 1, on: target", "line 15: 'on' is given without 'sql'"),
        ("rows: customers, min: 1", "restores: '2.3', min: 1", "line 15: 'min' is given without 'rows' or 'state'"),
        ("rows: customers, min: 1", "sql: x, max: 1", "→ give one of: rows, state"),
        ("rename-operator: {uid: orders, to: orders-v2}", _offsets("latst"), "line 11: 'latst' is not accepted here"),
        ("rename-operator: {uid: orders, to: orders-v2}", _offsets("latst"), "→ did you mean 'latest'?"),
        ("rename-operator: {uid: orders, to: orders-v2}", _offsets("1.5"), "line 11: 1.5 is not accepted here"),
        (
            "rename-operator: {uid: orders, to: orders-v2}",
            _offsets("{}"),
            "→ give a whole number or latest or earliest or committed",
        ),
    ],
)
def test_errors_show_the_line(old: str, new: str, says: str) -> None:
    assert old in JOB
    with pytest.raises(InvalidOption) as caught:
        validate(parse_document(JOB.replace(old, new), "job.yaml"))
    assert says in str(caught.value)
    assert "[file job.yaml]" in str(caught.value)


_OF_RESTORES = {
    "like": "/savepoints/y",
    "to_plan": "new.json",
    "from_plan": "old.json",
    "expect": "{operators: []}",
    "job": "job.json",
    "backend": "rocksdb",
    "claim_mode": "CLAIM",
}


@pytest.mark.parametrize("name", _OF_RESTORES)
def test_what_describes_the_job_is_of_the_check_restores(name: str) -> None:
    """Beside another check it would be left out without a word."""
    validate(parse_document(JOB.replace("rows: customers, min: 1", f"restores: '2.3', {name}: {_OF_RESTORES[name]}")))
    with pytest.raises(InvalidOption) as caught:
        validate(parse_document(JOB.replace("min: 1", f"min: 1, {name}: {_OF_RESTORES[name]}")))
    assert f"line 15: '{name}' is given without 'restores'" in caught.value.message
    assert caught.value.advice == ("add restores: the Flink version that restores the savepoint with the right values")


def test_a_job_is_a_mapping() -> None:
    for text in ("", "[]", "job"):
        with pytest.raises(InvalidOption, match="a job is a mapping"):
            validate(parse_document(text))
