"""Build the report of ``inspect``: plain values, as ``--json`` prints them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from stateproc.errors import SnapshotError
from stateproc.metadata import walk_stream_handles
from stateproc.metadata.stream_handles import StreamHandle
from stateproc.model.config_snapshots import ADVICE, config_snapshot_note, config_snapshot_states
from stateproc.model.operator import Operator
from stateproc.model.raw_keyed import raw_keyed_parts
from stateproc.model.state import State
from stateproc.reports.state_sizes import OperatorSizes
from stateproc.verification.problem import OUTSIDE, is_outside

if TYPE_CHECKING:
    from stateproc.model.snapshot import SnapshotContents

Report = dict[str, Any]


def snapshot_report(
    snapshot: SnapshotContents, operators: Iterable[Operator], sizes_of: Callable[[Operator], OperatorSizes]
) -> Report:
    """Report on the snapshot and these operators. Raises SnapshotError."""
    metadata = snapshot.metadata
    reports = [operator_report(operator, sizes_of(operator)) for operator in operators]
    return {
        "path": snapshot.path,
        "note": snapshot.note,
        "kind": snapshot.kind,
        "flink_versions": snapshot.flink_versions,
        "metadata_version": metadata.version,
        "checkpoint_id": metadata.checkpoint_id,
        "bytes": snapshot.file_bytes,
        "master_states": [
            {"name": item.name, "version": item.version, "bytes": len(item.payload)} for item in metadata.master_states
        ],
        "operator_count": len(reports),
        "state_count": sum(len(operator["states"]) for operator in reports),
        "unreadable_states": sum(operator["unreadable_states"] for operator in reports),
        "unlisted_operators": sum(bool(operator["problems"]) and not operator["states"] for operator in reports),
        "operators": reports,
    }


def operator_report(operator: Operator, sizes: OperatorSizes) -> Report:
    """Report on one operator."""
    metadata = operator.metadata
    states = [state_report(state, sizes) for state in operator.states]
    all_bytes, channel_bytes = _stream_bytes(operator)
    raw_keyed, raw_problems = _raw_keyed(operator)
    return {
        "uid": operator.uid,
        "uid_hash": operator.operator_id,
        "name": operator.name,
        "label": operator.label,
        "parallelism": operator.parallelism,
        "max_parallelism": operator.max_parallelism,
        "finished": metadata.finished,
        "finished_subtasks": [subtask.index for subtask in metadata.subtasks if subtask.finished],
        "layouts": sizes.layouts,
        "bytes": all_bytes,
        "channel_bytes": channel_bytes,
        "coordinator": _coordinator(operator),
        "raw_keyed": raw_keyed,
        "key_group_bytes": sizes.key_group_bytes,
        "states": states,
        "unreadable_states": sum(state["problem"] is not None for state in states),
        "notes": [*_missing_sizes(states, sizes), *_data_views(states), *_config_snapshots(operator)],
        "problems": list(dict.fromkeys(map(_text, (*operator.problems, *sizes.problems, *raw_problems)))),
    }


def _text(problem: SnapshotError) -> str:
    """Return what is wrong; of a file outside of the checkpoint root what all of its directory have in common."""
    return f"{OUTSIDE}\n  → {problem.advice}" if is_outside(problem) else str(problem)


def state_report(state: State, sizes: OperatorSizes) -> Report:
    """Report on one state."""
    size, entries = sizes.of_state(state)
    elements = state.elements
    problem = sizes.unreadable(state) or state.problem
    return {
        "name": state.name,
        "kind": state.kind,
        "distribution": state.distribution,
        "key_type": state.key_type,
        "namespace_type": state.namespace_type,
        "value_type": state.value_type,
        "ttl": state.ttl,
        "columns": {} if problem else {field.name: str(field.type) for field in state.schema()},
        "entries": entries if elements is None else elements,
        "bytes": size,
        "problem": None if problem is None else _text(problem),
    }


def _missing_sizes(states: list[Report], sizes: OperatorSizes) -> Iterator[str]:
    """Explain why entries or bytes of keyed states are not known."""
    keyed = [state for state in states if state["distribution"] == "keyed" and not state["problem"]]
    if all(state["entries"] is not None and state["bytes"] is not None for state in keyed):
        return
    if "changelog" in sizes.layouts:
        yield "entries and bytes are not counted: a changelog has to be replayed to know them"
    elif "rocksdb" in sizes.layouts:
        yield (
            "entries are not known of RocksDB states with several tables, deletions or merge operands; "
            "--rocksdb shows the statistics of the tables"
        )
    elif sizes.skipped_files:
        yield f"entries and bytes are not counted: {sizes.skipped_files} files over 64 MiB; --scan reads them"
    else:
        yield "entries and bytes are not counted: the end of a value is not known without its serializer"


def _data_views(states: list[Report]) -> Iterator[str]:
    """Explain fields of SQL accumulators that are always null."""
    for state in states:
        for view, kind in (("MapView", "map"), ("ListView", "list")):
            if f"RAW(org.apache.flink.table.api.dataview.{view})" in (state["value_type"] or ""):
                yield (
                    f"{state['name']}: a field of type RAW(…{view}) is a view of a {kind} state of this operator; "
                    "the value contains no data of it, so its column is a boolean that is always null"
                )


def _config_snapshots(operator: Operator) -> Iterator[str]:
    """Say which states Flink 1.17 and later cannot restore, and what to do."""
    states = config_snapshot_states(operator)
    if states:
        yield f"{config_snapshot_note(states)}; {ADVICE}"


def _stream_bytes(operator: Operator) -> tuple[int, int]:
    """Return the bytes of all files of the operator, and those of channels; shared files count once."""
    from stateproc.metadata import SnapshotMetadata

    sizes: dict[StreamHandle, int] = {}
    channels: dict[StreamHandle, int] = {}
    for use in walk_stream_handles(SnapshotMetadata(0, 0, (), (operator.metadata,))):
        sizes[use.handle] = use.handle.size
        if use.role.startswith("channel"):
            channels[use.handle] = use.handle.size
    return sum(sizes.values()), sum(channels.values())


def _raw_keyed(operator: Operator) -> tuple[Report | None, list[SnapshotError]]:
    """Return bytes and key groups of raw keyed state that only the operator can read, and why they are not known."""
    try:
        parts = list(raw_keyed_parts(operator))
    except SnapshotError as error:
        return None, [error]
    if not parts:
        return None, []
    groups = sorted(item.key_group for part in parts for item in part.ranges)
    return {"bytes": sum(part.bytes for part in parts), "key_groups": groups}, []


def _coordinator(operator: Operator) -> Report | None:
    """Return the coordinator's state; bytes of unknown formats as base64."""
    found = operator.coordinator
    if found is None:
        return None
    shown = {name: _plain(value) for name, value in found.items()}
    if shown.get("decoded") is not None:
        shown.pop("enumerator", None)
    return {name: value for name, value in shown.items() if value not in ("", None)}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value


# Leave small states and operators out of the report of ``inspect``.


def without_small(report: Report, min_bytes: int) -> Report:
    """Return the report without states and operators of fewer bytes.

    States of unknown size remain, and so do those that cannot be read and operators with problems.

    Returns:
        A report that counts under ``hidden`` what it leaves out; the counts of all of it are unchanged.
    """
    operators = []
    hidden_states = 0
    for operator in report["operators"]:
        states = [state for state in operator["states"] if _remains(state, min_bytes)]
        if states or operator["problems"] or operator["bytes"] >= min_bytes:
            hidden_states += len(operator["states"]) - len(states)
            operators.append({**operator, "states": states})
    hidden = {"min_bytes": min_bytes, "operators": len(report["operators"]) - len(operators), "states": hidden_states}
    return {**report, "hidden": hidden, "operators": operators}


def _remains(state: Report, min_bytes: int) -> bool:
    return state["problem"] is not None or state["bytes"] is None or state["bytes"] >= min_bytes


def by_size(items: list[Report]) -> list[Report]:
    """Return operators or states, the largest first; those of unknown size are the last."""
    return sorted(items, key=lambda item: -1 if item["bytes"] is None else item["bytes"], reverse=True)


def is_stateless(operator: Report) -> bool:
    """Return whether there is nothing to show of an operator but its name and parallelism."""
    return not (operator["states"] or operator["problems"] or operator["coordinator"] or operator["bytes"])
