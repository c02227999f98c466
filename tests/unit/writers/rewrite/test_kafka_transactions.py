"""Pending transactions of sinks: those of Kafka can be dropped, those of other sinks are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import stateproc
from stateproc import InvalidOption, NotFound, SavepointWriter
from tests.helpers.fixtures import FIXTURES
from tests.helpers.paths import DEMO

SINKS = str(FIXTURES / "1.20" / "sinks-hashmap-canonical" / "snapshot")


def test_other_sinks_are_refused() -> None:
    writer = SavepointWriter.from_existing_savepoint(None, SINKS, {"uids": ["orders-sink"]})
    with pytest.raises(InvalidOption, match="not that of a Kafka sink"):
        writer.drop_kafka_transactions("orders-sink")


def test_operators_without_a_sink_are_not_found(tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(None, DEMO, {"uids": ["orders-from-kafka"]})
    with pytest.raises(NotFound, match="state of a sink in operator 'orders-from-kafka'"):
        writer.drop_kafka_transactions("orders-from-kafka")
    assert stateproc.open(DEMO)
