"""Reports of jobs that no fixture has: many operators and states, hostile names."""

from __future__ import annotations

import random
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pyarrow as pa

from stateproc.html.cards import type_tree
from stateproc.reports.page.page_report import PageReport
from stateproc.reports.state_times import StateTimes, TimeCounter

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
HOSTILE = '<script>window.hacked=1</script><img src=x onerror="window.hacked=1">\'"&\u202e${1}{{7*7}}'
_KINDS = ("value", "map", "list", "event timers", "aggregating")
_INNER = pa.struct([(f"x{number}", pa.int64()) for number in range(10)])
_VALUE = pa.struct([*((f"field_{number}", pa.string()) for number in range(20)), ("inner", _INNER)])


def state(name: str, size: int, **changes: Any) -> dict[str, Any]:
    """A state as the report of inspect has it."""
    plain = {
        "name": name, "kind": "value", "distribution": "keyed", "key_type": "String", "namespace_type": None,
        "value_type": "Long", "ttl": False, "columns": {}, "entries": size // 40, "bytes": size, "problem": None,
    }  # fmt: skip
    return plain | changes


def operator(uid: str | None, uid_hash: str, states: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """An operator as the report of inspect has it."""
    plain = {
        "uid": uid, "uid_hash": uid_hash, "name": None, "label": None, "parallelism": 4, "max_parallelism": 128,
        "finished": False, "finished_subtasks": [], "layouts": ["canonical"] if states else [],
        "bytes": sum(item["bytes"] or 0 for item in states), "channel_bytes": 0, "coordinator": None, "raw_keyed": None,
        "key_group_bytes": {}, "states": states,
        "unreadable_states": sum(item["problem"] is not None for item in states), "notes": [], "problems": [],
    }  # fmt: skip
    return plain | changes


def report(operators: list[dict[str, Any]], **changes: Any) -> PageReport:
    """A report of these operators."""
    inspect = {
        "path": "/snapshots/chk-7", "note": None, "kind": "checkpoint", "flink_versions": "1.16 – 1.20",
        "metadata_version": 4, "checkpoint_id": 7, "bytes": sum(item["bytes"] for item in operators),
        "master_states": [], "operator_count": len(operators),
        "state_count": sum(len(item["states"]) for item in operators),
        "unreadable_states": sum(item["unreadable_states"] for item in operators), "unlisted_operators": 0,
        "operators": operators,
    }  # fmt: skip
    facts: dict[str, Any] = {"written": NOW, "columns": {}, "rocksdb": {}, "times": [], "offsets": [], "notes": []}
    return PageReport(inspect=inspect, **(facts | changes))


def times(uid_hash: str, name: str, kind: str, values: object) -> StateTimes:
    """The histogram of these times."""
    counter = TimeCounter()
    counter.add(np.asarray(values, dtype=np.int64))
    return StateTimes(uid_hash, name, kind, counter.histogram(), None)


def hostile_report() -> PageReport:
    """A report in which every text from a snapshot tries to run as a script."""
    names = state(HOSTILE, 5_000, key_type=HOSTILE, value_type=HOSTILE, namespace_type=HOSTILE, ttl=True)
    bad = state(f"{HOSTILE}2", 10, problem=f"{HOSTILE} [file x]\n  → {HOSTILE}")
    found = operator(
        HOSTILE, "a" * 32, [names, bad], name=f"{HOSTILE}3", problems=[HOSTILE], notes=[HOSTILE], layouts=[HOSTILE],
        key_group_bytes={1: 5, 2: 9},
    )  # fmt: skip
    offset = {"operator": HOSTILE, "topic": HOSTILE, "partition": 0, "offset": 1, "stopping_offset": None, "subtask": 0}
    made = report(
        [found],
        columns={("a" * 32, HOSTILE, "keyed"): type_tree(pa.schema([(HOSTILE, pa.struct([(HOSTILE, pa.int64())]))]))},
        rocksdb={"a" * 32: {"states": [_tables(HOSTILE, 100)], "problems": []}},
        times=[times("a" * 32, HOSTILE, "event timers", [1, 2]), times("a" * 32, HOSTILE, "last access", [1, 2])],
        offsets=[offset],
        notes=[HOSTILE],
    )
    made.inspect["path"] = made.inspect["note"] = HOSTILE
    return made


def large_report(operators: int = 300, partitions: int = 3_000) -> PageReport:
    """A report of a job with hundreds of operators, thousands of states and wide types."""
    chance, numbers = random.Random(1), np.random.default_rng(1)
    tree = type_tree(pa.schema([("key_group", pa.int32()), ("key", pa.string()), ("value", _VALUE)]))
    listed, columns, histograms, tables = [], {}, [], {}
    for number in range(operators):
        uid_hash = f"{chance.getrandbits(128):032x}"
        states = [] if number % 4 == 3 else [_large_state(chance, number, at) for at in range(chance.randint(5, 13))]
        for at, item in enumerate(states):
            columns[uid_hash, item["name"], "keyed"] = tree
            if at < 2:
                moments = numbers.integers(1_700_000_000_000, 1_700_100_000_000, 1_000)
                histograms.append(times(uid_hash, item["name"], ("event timers", "last access")[at], moments))
        if states:
            tables[uid_hash] = {"states": [_tables(item["name"], item["bytes"]) for item in states], "problems": []}
        groups = {group: chance.randint(0, 10**6) for group in range(1024)} if states else {}
        changes = {"parallelism": 200, "max_parallelism": 1024, "key_group_bytes": groups, "notes": ["not counted"]}
        listed.append(operator(f"operator-number-{number}-of-the-job", uid_hash, states, **changes))
    row = {"operator": "source", "offset": 1, "stopping_offset": None, "subtask": 3}
    offsets = [{**row, "topic": f"topic-{at % 40}", "partition": at // 40} for at in range(partitions)]
    return report(listed, columns=columns, rocksdb=tables, times=histograms, offsets=offsets)


def _large_state(chance: random.Random, operator_number: int, at: int) -> dict[str, Any]:
    size = int(10 ** chance.uniform(3, 10))
    bad = at == 2 and operator_number % 9 == 0
    return state(
        f"state-{operator_number}-{at}", size, kind=chance.choice(_KINDS), ttl=at % 3 == 0,
        value_type=f"Pojo com.example.shop.orders.OrderAggregate{at}", entries=size // 40 if at % 5 else None,
        problem=f"class com.example.C{operator_number % 7} is not described [file x]\n  → describe it" if bad else None,
    )  # fmt: skip


def _tables(name: str, size: int) -> dict[str, Any]:
    moment = "2026-01-01T00:00:00Z"
    return {
        "state": name, "subtasks": 4, "files": 9, "bytes": size, "levels": {"0": 2, "1": 3, "6": 4}, "entries": 1000,
        "deletions": 5, "merge_operands": 0, "range_deletions": 0, "raw_key_bytes": 5, "raw_value_bytes": 5,
        "estimated_keys": 4, "live_ratio": 0.9, "compressions": ["Snappy"], "oldest_key_time": moment,
        "newest_key_time": moment, "tables": [{"level": level, "bytes": size // 3} for level in (0, 1, 6)],
    }  # fmt: skip
