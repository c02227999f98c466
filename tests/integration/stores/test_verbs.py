"""Verbs read from an object store and write to it, without a file on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import stateproc
from stateproc.cli import main
from stateproc.storage.store import StorePath
from stateproc.writers.commit.commit import Commit
from tests.helpers.paths import DEMO
from tests.helpers.stores.object_store import Store, object_store

SOURCE, TARGET = "s3://flink/savepoints/demo", "s3://flink/changed"


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with object_store() as made:
        made.upload(DEMO, "savepoints/demo")
        yield made


def test_a_snapshot_in_a_store_is_planned_changed_and_replaced(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    rescale = ["rescale", SOURCE, TARGET, "--max-parallelism", "64", "--json"]
    assert main([*rescale, "--plan"]) == 0
    assert json.loads(capsys.readouterr().out)["target"] == TARGET
    assert main(["ls", TARGET]) != 0  # The plan has written nothing.
    capsys.readouterr()
    assert main(rescale) == 0
    assert json.loads(capsys.readouterr().out)["entries"] > 0
    assert {operator.max_parallelism for operator in stateproc.open(TARGET).operators} == {64}
    rename = ["rename-operator", SOURCE, TARGET, "--uid", "orders-per-customer", "--to", "customers"]
    assert main(rename) == 2 and "a snapshot is here already" in capsys.readouterr().err
    assert main([*rename, "--overwrite"]) == 0
    written = stateproc.open(TARGET, uids=["customers"])
    assert {operator.max_parallelism for operator in written.operators} == {128}
    assert written.state("customers", "profile").to_arrow().num_rows == 300
    assert main(["copy", TARGET, f"{TARGET}/inside"]) == 2 and "made from" in capsys.readouterr().err


def test_a_write_that_was_killed_before_its_first_file(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a store a directory ends with its last file, here the marker of the killed write."""
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    target = "s3://flink/killed"
    for options in ([], ["--overwrite"]):
        Commit.begin(StorePath.of(target), overwrite=bool(options))
        assert main(["copy", SOURCE, target, *options]) == 0
        assert len(stateproc.open(target).operators) == 3
        assert not [item for item in store.names("killed") if item.startswith(".")]
        store.client.delete_objects(
            Bucket="flink", Delete={"Objects": [{"Key": f"killed/{item}"} for item in store.names("killed")]}
        )
