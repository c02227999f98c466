"""Kinds of operators by the names of their states."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stateproc.model.operator_labels import label_of_states


def states(*names: str, key: str | None = "ROW<f0 BIGINT>", kind: str = "value") -> list[Any]:
    return [SimpleNamespace(name=name, kind=kind, key_type=key) for name in names]


@pytest.mark.parametrize(
    ("names", "kind", "label"),
    [
        (("accState", "distinctAcc_0"), "value", "GroupAggregate"),
        (("accState", "inputState", "cleanupTsState"), "value", "OverAggregate"),
        (("lastTriggeringTsState", "accState"), "value", "OverAggregate"),
        (("left-records", "right-records"), "map", "Join"),
        (("right-records",), "value", "Join"),
        (("left-records", "right-records"), "list", "WindowJoin"),
        (("IntervalJoinLeftCache", "IntervalJoinRightCache"), "map", "IntervalJoin"),
        (("left", "right", "next-index", "timer"), "map", "TemporalJoin"),
        (("right", "cleanup-timestamp"), "value", "TemporalJoin"),
        (("deduplicate-state",), "value", "Deduplicate or ChangelogNormalize"),
        (("data-state", "sorted-map"), "map", "Rank"),
        (("Top1-Rank-State",), "value", "Rank"),
        (("window-aggs", "watermark"), "value", "WindowAggregate"),
        (("window-aggs", "previous-aggs"), "value", "GroupWindowAggregate"),
        (("window_rank",), "list", "WindowRank"),
        (("values",), "value", "SinkMaterializer"),
        (("values",), "list", None),
        (("dataState", "lastTriggeringTsState"), "map", "TemporalSort"),
        (("orders", "totals"), "value", None),
    ],
)
def test_table_operators_are_recognized(names: tuple[str, ...], kind: str, label: str | None) -> None:
    assert label_of_states(states(*names, kind=kind)) == label


def test_functions_of_stream_jobs_are_not_taken_for_table_operators() -> None:
    for name in ("accState", "left-records", "values", "deduplicate-state"):
        assert label_of_states(states(name, key="Long")) is None


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("SourceReaderState", "Source"),
        ("topic-partition-offset-states", "Kafka source"),
        ("writer_raw_states", "Sink writer"),
        ("streaming_committer_raw_states", "Sink committer"),
        ("bucket-states", "File sink"),
        ("nfaStateName", "Pattern (CEP)"),
        ("window-contents", "Window"),
    ],
)
def test_operators_of_the_runtime_are_recognized(name: str, label: str) -> None:
    assert label_of_states(states(name, key=None)) == label


def test_an_operator_without_state_has_no_label() -> None:
    assert label_of_states([]) is None
