"""Options of the data source: values, defaults, former names, and errors of invalid ones."""

from __future__ import annotations

import pytest

from stateproc.errors import InvalidOption
from stateproc.options import OPEN_OPTIONS, OPTIONS, Interface
from stateproc.snapshot.selection import StateSelection
from stateproc.spark.options import SourceOptions, source_options
from tests.helpers.paths import ROOT


def test_option_names_are_case_insensitive_and_values_are_converted() -> None:
    options = source_options(
        {
            "path": "/p", "UIDHASH": "0123456789ABCDEF0123456789abcdef", "timers": "Event",
            "flattencollectiontypes": "TRUE", "columns": "a, b", "keygroups": "0-2,7", "keys": '[1, "x"]',
            "splitbytes": "64m", "uids": '["a,b", "c"]', "plugins": "one,two", "temporal": "exact",
            "rowkind": "false", "kryo": "5", "verify": "false", "onerror": "NULL",
            "opaque": "bytes", "pathmapping": '{"hdfs://a/": "s3://b/"}',
            "fs.anon": "true", "fs.key": "12", "PROTO": "/types.desc", "fs.client_kwargs": '{"region": "eu"}',
        }
    )  # fmt: skip
    assert options == SourceOptions(
        path="/p",
        selection=StateSelection(
            uid_hash="0123456789abcdef0123456789abcdef", timers="event", interface=Interface.SPARK
        ),
        opening={
            "uids": ("a,b", "c"),
            "classes": None,
            "plugins": ("one", "two"),
            "temporal": "exact",
            "on_loss": "cut",
            "row_kind": False,
            "kryo": 5,
            "verify": False,
            "on_error": "null",
            "opaque": "bytes",
            "case_class_arity": None,
            "value_type": None,
            "plan": None,
            "proto": "/types.desc",
            "key_type": None,
            "path_mapping": {"hdfs://a/": "s3://b/"},
            "allowed_roots": (),
            "storage_options": {"anon": True, "key": "12", "client_kwargs": {"region": "eu"}},
        },
        flatten=True,
        columns=("a", "b"),
        key_groups=frozenset({0, 1, 2, 7}),
        keys=(1, "x"),
        split_bytes=64 << 20,
    )


def test_defaults() -> None:
    options = source_options({"path": "/p"})
    defaults = {option.name: option.default for option in OPEN_OPTIONS}
    assert options == SourceOptions("/p", StateSelection(interface=Interface.SPARK), defaults, split_bytes=256 << 20)


@pytest.mark.parametrize("name", ["flatten", "flattenCollectionTypes", "FLATTENCOLLECTIONTYPES"])
def test_the_former_name_of_an_option_is_accepted(name: str) -> None:
    assert source_options({"path": "/p", name: "true"}).flatten


def test_storage_options_are_given_as_json_or_one_by_one() -> None:
    raw = {"path": "/p", "storageOptions": '{"anon": true, "key": "1"}', "fs.key": "2"}
    assert source_options(raw).opening["storage_options"] == {"anon": True, "key": "2"}


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("67108864", 64 << 20), ("64k", 64 << 10), ("64MB", 64 << 20), ("2GiB", 2 << 30)],
)
def test_sizes_with_units_are_parsed(text: str, size: int) -> None:
    assert source_options({"path": "/p", "splitbytes": text}).split_bytes == size


@pytest.mark.parametrize(
    ("options", "message", "advice"),
    [
        ({"uidd": "a"}, "no option 'uidd'", "did you mean uid or uids?"),
        ({"flaten": "true"}, "no option 'flaten'", "did you mean flatten or plan?"),
        ({"zzz": "a"}, "no option 'zzz'", "there are: path, uid, uidHash"),
        ({"paths": '["a"]'}, "several paths given", "one snapshot at a time"),
        ({"owner": "a"}, "loses its options", "CREATE TEMPORARY VIEW"),
        ({"path": ""}, "no path given", "load("),
        ({"raw": "yes"}, "option raw='yes'", "give true or false"),
        ({"table": "state"}, "option table='state'", "did you mean 'states'?"),
        ({"timers": "both"}, "option timers='both'", "event, processing"),
        ({"uidhash": "abc"}, "option uidHash='abc'", "32 hex digits"),
        ({"splitbytes": "0"}, "option splitBytes='0'", "64m"),
        ({"splitbytes": "-5"}, "option splitBytes='-5'", "64m"),
        ({"keygroups": "5-2"}, "option keyGroups='5-2'", "0-15,42"),
        ({"keygroups": "0-99999"}, "option keyGroups='0-99999'", "0-15,42"),
        ({"keys": "42"}, "option keys='42'", "a JSON list of keys"),
        ({"keys": "[1"}, "option keys='[1'", "a JSON list of keys"),
        ({"pathmapping": '{"a": 1}'}, "option pathMapping=", "hdfs://old/"),
        ({"kryo": "3"}, "option kryo='3'", "2 (Flink 1.x) or 5 (Flink 2.x)"),
        ({"state": "s"}, "option state needs an operator", "give uid or uidHash"),
        ({"uid": "u", "state": "s", "timers": "event"}, "options state and timers exclude", "one of them"),
        ({"uid": "u", "uidhash": "0" * 32}, "options uid and uidHash exclude", "one of them"),
        ({"uid": "u", "state": "s", "namespace": "n"}, "option namespace does not go with state", "wide"),
    ],
)
def test_invalid_options_are_refused_with_advice(options: dict[str, str], message: str, advice: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        source_options({"path": "/p", **options})
    assert message in raised.value.message
    assert advice in (raised.value.advice or "")


def test_every_option_is_in_the_documentation() -> None:
    text = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    spark = [option for option in OPTIONS if Interface.SPARK in option.interfaces]
    assert [option.spark_name for option in spark if f"`{option.spark_name}`" not in text] == []
