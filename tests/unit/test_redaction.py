"""Credentials in texts, errors, representations and pickles."""

from __future__ import annotations

import pickle
import traceback
from typing import Any

import pytest

import stateproc
from stateproc.cli import main
from stateproc.errors import CorruptSnapshot, InvalidOption, SnapshotError, StoreUnavailable, Where, WriteFailed
from stateproc.metadata.stream_handles import RelativeFileHandle
from stateproc.options import BY_NAME, Interface
from stateproc.redaction import redacted
from stateproc.spark.options import source_options
from stateproc.storage import SnapshotLocation, open_handle
from stateproc.storage.store import StorePath
from stateproc.storage.writing import writing
from stateproc.writers.commit.staging import Staging
from stateproc.writers.scaled_operators import WriteSettings
from stateproc.writers.spark.data_source_writer import sink_options
from tests.helpers.paths import DEMO
from tests.helpers.sweeps import sampled

SECRET = "hunter22-is-secret"
OPTIONS: dict[str, Any] = {
    "key": "AKIAEXAMPLE",
    "secret": SECRET,
    "anon": "false",
    "client_kwargs": {"aws_session_token": "session-abcdef", "region_name": "eu-central-1"},
    "token": {"client_email": "me@example.org", "private_key": "-----BEGIN"},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no such file", "no such file"),
        ("hdfs://user:pass@name:8020/a", "hdfs://user:***@name:8020/a"),
        ("s3n://AKIA:a+b%2Fc@bucket/x and s3://b:2/y@z", "s3n://AKIA:***@bucket/x and s3://b:2/y@z"),
        ("abfs://container@account/x", "abfs://container@account/x"),
        (
            "GET https://h/x?X-Amz-Signature=abc&X-Amz-Date=1 failed",
            "GET https://h/x?X-Amz-Signature=***&X-Amz-Date=1 failed",
        ),
        ("https://h/x?sv=2021&sig=a%3D&se=9", "https://h/x?sv=2021&sig=***&se=9"),
        ("'https://h/x?access_token=abc'", "'https://h/x?access_token=***'"),
        ("key_groups=0-15 and signature=short", "key_groups=0-15 and signature=short"),
    ],
)
def test_addresses(text: str, expected: str) -> None:
    assert redacted(text) == expected


def test_secret_options() -> None:
    text = f"AKIAEXAMPLE {SECRET} session-abcdef eu-central-1 false me@example.org -----BEGIN"
    assert redacted(text, OPTIONS) == "*** *** *** eu-central-1 false *** ***"


@pytest.mark.parametrize("error", [ValueError, TypeError, OSError])
def test_errors_of_clients(error: type[Exception]) -> None:
    for context, kind in ((StorePath.explained, (StoreUnavailable, InvalidOption)), (writing, WriteFailed)):
        with pytest.raises(kind) as caught, context(StorePath("s3://bucket/x", OPTIONS)):
            raise error(f"refused: {SECRET} at https://h/x?sig=abcdef")
        shown = "".join(traceback.format_exception(caught.value))
        assert SECRET not in shown and "abcdef" not in shown and "refused: ***" in str(caught.value)


def test_errors_keep_no_password_in_their_position() -> None:
    error = CorruptSnapshot("hdfs://u:pw12@n/x", where=Where(file="hdfs://u:pw12@n/x"), advice="hdfs://u:pw12@n/x")
    again = pickle.loads(pickle.dumps(error.at(operator="o")))
    assert "pw12" not in repr(again) + str(again) + repr(again.where) + str(again.advice)
    assert isinstance(again, SnapshotError) and again.where.operator == "o"


def test_representations() -> None:
    location = SnapshotLocation(StorePath("s3://b/sp/_metadata", OPTIONS))
    raw = {"path": "s3://b/sp", "fs.secret": SECRET, "uid": "u", "state": "s"}
    shown = [
        location,
        open_handle(RelativeFileHandle("u", 1), location),
        Staging(StorePath("s3://b/sp", OPTIONS), "1" * 16),
        source_options(raw),
        sink_options({**raw, "stateKind": "value"}),
        WriteSettings(None, None, storage_options=OPTIONS),  # type: ignore[arg-type]
    ]
    snapshot = stateproc.open(str(DEMO), storage_options=OPTIONS, uids=["orders-per-customer"])
    state = snapshot.state("orders-per-customer", "profile")
    shown += [snapshot, snapshot.location, state, state.operator, state.operator.location, *state.splits()]
    shown += [snapshot._repr_html_(), state._repr_html_()]
    for item in shown:
        assert SECRET not in repr(item) and "session-abcdef" not in repr(item), type(item)


@pytest.mark.parametrize("interface", Interface)
def test_options_that_do_not_fit_are_not_shown(interface: Interface) -> None:
    with pytest.raises(InvalidOption) as caught:
        BY_NAME["storage_options"].value(f'{{"secret": "{SECRET}"', interface)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert "***" in str(caught.value)


@pytest.mark.parametrize(
    "command",
    [
        ("inspect", "--json"),
        sampled(("verify", "--json")),
        sampled(("describe", "--uid", "orders-per-customer", "--json")),
    ],
)
def test_commands_print_no_secrets(capfd: pytest.CaptureFixture[str], command: tuple[str, ...]) -> None:
    name, *more = command
    uids = ("--uids", "orders-per-customer", "--storage-options", f"secret={SECRET}")
    assert main((name, str(DEMO), *more, *uids)) == 0
    assert (
        main((name, f"s3://bucket-{name}/x", *more, *uids, "--storage-options", "endpoint_url=http://127.0.0.1:9")) > 0
    )
    out, err = capfd.readouterr()
    assert SECRET not in out + err


def test_splits_that_leave_the_driver_contain_the_options_that_they_read_with() -> None:
    location = SnapshotLocation(StorePath("s3://b/sp/_metadata", OPTIONS))
    assert SECRET.encode() in pickle.dumps(open_handle(RelativeFileHandle("u", 1), location))
    assert SECRET.encode() not in pickle.dumps(location.roots)
