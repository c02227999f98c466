"""The result of a write: the path, and a report of what was written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stateproc.html.units import counted, human_bytes
from stateproc.metadata import walk_stream_handles
from stateproc.writers.plan.savepoint_plan import OperatorPlan, PlanAction, SavepointPlan, in_brackets, plain
from stateproc.writers.write_snapshot import WrittenSnapshot
from stateproc.writers.write_spec import OperatorWriteSpec

_STATE = ("name", "kind", "action", "reasons", "entries")
_OPERATOR = ("operator_id", "uid", "action", "parallelism", "max_parallelism", "entries", "bytes", "reasons", "states")


@dataclass(frozen=True)
class WriteReport:
    """What a write did.

    Attributes:
        source: The snapshot that was rewritten; None for a new savepoint.
        target: The directory that was written.
        flink_version: The release that restores the savepoint.
        format: The format of keyed state that was written anew.
        compressed: Whether that is compressed.
        engine: ``local`` or ``spark``.
        checkpoint_id: The savepoint's id.
        operators: The operators as they were planned, with what was written; dropped ones last.
        entries: All entries written.
        bytes: All bytes of state in the savepoint, of files and within ``_metadata``.
        seconds: Seconds by phase: ``copy``, ``write`` and ``total``.
        notes: What the job and its configuration need to restore the savepoint, and what to know about the changes.
        warnings: What went wrong without harm, such as obsolete files that could not be removed.
    """

    source: str | None
    target: str
    flink_version: str
    format: str
    compressed: bool
    engine: str
    checkpoint_id: int
    operators: tuple[OperatorPlan, ...]
    entries: int
    bytes: int
    seconds: Mapping[str, float]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        own = ("source", "target", "flink_version", "format", "compressed", "engine", "checkpoint_id")
        return {
            **{name: getattr(self, name) for name in (*own, "entries", "bytes")},
            "seconds": {phase: round(seconds, 3) for phase, seconds in self.seconds.items()},
            "notes": list(self.notes),
            "warnings": list(self.warnings),
            "operators": [plain(item, _OPERATOR, _STATE) for item in self.operators],
        }

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        count, size = counted(self.entries, "entry", "entries"), human_bytes(self.bytes)
        seconds = self.seconds["total"]
        yield f"Savepoint {self.target} for Flink {self.flink_version}: {count} written, {size}, {seconds:.1f} s"
        for operator in self.operators:
            yield f"  {operator.action} {operator.display}{in_brackets(operator.reasons)}"
            for state in operator.states:
                entries = () if state.entries is None else (counted(state.entries, "entry", "entries"),)
                yield f"    {state.action} {state.kind} {state.name}{in_brackets((*state.reasons, *entries))}"
        yield from (f"  note: {note}" for note in self.notes)
        yield from (f"  warning: {warning}" for warning in self.warnings)


class WriteResult(str):
    """What `SavepointWriter.write` returns: the path, with a report.

    It is a ``str``, because Spark's readers accept no other paths.

    Attributes:
        report: What was written.
    """

    report: WriteReport

    def __new__(cls, path: str, report: WriteReport) -> WriteResult:
        result = super().__new__(cls, path)
        result.report = report
        return result

    def __getnewargs__(self) -> tuple[str, WriteReport]:  # type: ignore[override]
        return self.path, self.report

    @property
    def path(self) -> str:
        """The directory, as it was given."""
        return str(self)


def write_report(plan: SavepointPlan, written: WrittenSnapshot, engine: str) -> WriteReport:
    """Return the report of a write that was planned before.

    Args:
        written: What was written.
        engine: The name of the engine.
    """
    entries = _entries_by_state(written)
    sizes = _bytes_by_operator(written)
    operators = tuple(_counted(item, entries, sizes) for item in plan.operators)
    return WriteReport(
        source=plan.source,
        target=written.spec.staging.directory_uri,
        flink_version=plan.flink_version,
        format=plan.format,
        compressed=plan.compressed,
        engine=engine,
        checkpoint_id=written.metadata.checkpoint_id,
        operators=operators,
        entries=sum(sum(states.values()) for states in entries.values()),
        bytes=sum(sizes.values()),
        seconds=dict(written.seconds),
        notes=plan.notes,
        warnings=tuple(f"obsolete file {name} could not be removed" for name in written.leftovers),
    )


def _entries_by_state(written: WrittenSnapshot) -> dict[str, dict[str, int]]:
    """The entries that were written, by operator id and state."""
    found: dict[str, dict[str, int]] = {}
    for item in written.state_files:
        spec = written.spec.operators[written.spec.state_files[item.number].operator]
        states = found.setdefault(spec.operator_id, {})
        for name, count in zip(_state_names(spec, keyed=item.keyed is not None), item.state_entries, strict=True):
            states[name] = states.get(name, 0) + count
    return found


def _state_names(spec: OperatorWriteSpec, *, keyed: bool) -> Sequence[str]:
    if keyed:
        return [] if spec.keyed is None else [info.name for info in spec.keyed.states]
    return [] if spec.operator is None else [info.name for info in spec.operator.infos]


def _bytes_by_operator(written: WrittenSnapshot) -> dict[str, int]:
    sizes = {operator.operator_id: 0 for operator in written.metadata.operators}
    for use in walk_stream_handles(written.metadata):
        sizes[use.operator.operator_id] += use.handle.size
    return sizes


def _counted(plan: OperatorPlan, entries: Mapping[str, Mapping[str, int]], sizes: Mapping[str, int]) -> OperatorPlan:
    """Return the plan of an operator with what was written."""
    own = entries.get(plan.operator_id)
    if plan.action is PlanAction.DROPPED or own is None:
        return replace(plan, bytes=0 if plan.action is PlanAction.DROPPED else sizes.get(plan.operator_id, 0))
    states = tuple(
        state if state.action is PlanAction.DROPPED else replace(state, entries=own.get(state.name))
        for state in plan.states
    )
    return replace(plan, entries=sum(own.values()), bytes=sizes.get(plan.operator_id, 0), states=states)
