"""Evaluate the checks of a job: of sources before anything is written, of the savepoint before it is committed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stateproc.compatibility.verdicts import Verdict
from stateproc.errors import CheckFailed, InvalidOption, SnapshotError
from stateproc.jobs.job_model import CheckSpec
from stateproc.jobs.run_report import CheckResult
from stateproc.jobs.source_tables import SourceTables
from stateproc.snapshot import opening
from stateproc.snapshot.snapshot import Snapshot

_WORST = (Verdict.REFUSED, Verdict.MISREAD)


def reads_target(check: CheckSpec) -> bool:
    """Return whether a check reads the savepoint that is written, not the sources."""
    return check.kind in ("state", "restores") or check.values.get("on") == "target"


def check_sources(checks: Iterable[CheckSpec], tables: SourceTables) -> list[CheckResult]:
    """Evaluate checks of sources. Raises InvalidOption for a query that is no check."""
    return [_of_sources(check, tables) for check in checks]


def check_target(checks: Iterable[CheckSpec], snapshot: Snapshot) -> list[CheckResult]:
    """Evaluate checks of a savepoint that is not committed yet. Raises SnapshotError."""
    found = []
    for check in checks:
        if check.kind == "state":
            state = snapshot.state(str(check.values["uid"]), check.subject)
            found.append(_count_within(check, sum(batch.num_rows for batch in state.batches(columns=["key_group"]))))
        elif check.kind == "restores":
            found.append(_restores(check, snapshot))
        else:
            database = snapshot.sql_database(external_access=False)
            try:
                rows = database.run(check.subject).reader().read_all().to_pylist()
            finally:
                database.close()
            found.append(_truth(check, [tuple(row.values()) for row in rows[:2]]))
    return found


def _restores(check: CheckSpec, snapshot: Snapshot) -> CheckResult:
    """Answer whether the job restores the savepoint; ``like`` is in the store of the savepoint, or a local path.

    What else says what the job is are local files, and the states that it declares.
    """
    like = check.values.get("like")
    options = snapshot.location.metadata.options if "://" in str(like) else None
    job = None if like is None else opening.open(str(like), storage_options=options)
    said = {name: check.values.get(name) for name in ("to_plan", "from_plan", "expect", "job", "backend", "claim_mode")}
    result = snapshot.check(flink_version=check.subject, like=job, **said)
    wrong = [
        f"{operator.display} {state.name}: {state.verdict.value} ({'; '.join((*state.reasons, *state.losses))})"
        # What begins or is dropped is often meant: first what fails, or is read as something else.
        for operator, state in sorted(result.states, key=lambda one: one[1].verdict not in _WORST)
        if not state.is_right
    ]
    if result.restores:
        cautions = "".join(f"; {caution.what}: {caution.fix}" for caution in result.cautions)
        return CheckResult(
            check.name, check.kind, True, f"{sum(1 for _ in result.states)} states are restored{cautions}"
        )
    shown = wrong[:3] or list(result.reasons) or [f"{item.display}: {item.verdict.value}" for item in result.operators]
    more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    return CheckResult(check.name, check.kind, False, "; ".join(shown) + more)


def failures(results: Iterable[CheckResult]) -> list[CheckResult]:
    """Return the checks that do not hold."""
    return [item for item in results if item.passed is False]


def _of_sources(check: CheckSpec, tables: SourceTables) -> CheckResult:
    if check.kind == "sql":
        return _truth(check, tables.rows(check.subject))
    source = tables.quoted(check.subject)
    if check.kind == "rows":
        ((count,),) = tables.rows(f"SELECT count(*) FROM {source}")
        return _count_within(check, int(count))
    columns = ", ".join(tables.quoted(name) for name in check.values["columns"])
    repeated = f"SELECT count(*) AS n FROM {source} GROUP BY {columns} HAVING count(*) > 1"
    ((count,),) = tables.rows(f"SELECT count(*) FROM ({repeated}) AS repeated")
    return CheckResult(check.name, check.kind, count == 0, f"{count} values more than once")


def _count_within(check: CheckSpec, count: int) -> CheckResult:
    least, most = check.values.get("min"), check.values.get("max")
    passed = (least is None or count >= least) and (most is None or count <= most)
    bounds = " and ".join(
        f"{word} {bound}" for word, bound in (("at least", least), ("at most", most)) if bound is not None
    )
    return CheckResult(check.name, check.kind, passed, f"{count} rows, {bounds} expected")


def _truth(check: CheckSpec, rows: list[tuple[Any, ...]]) -> CheckResult:
    if len(rows) != 1 or len(rows[0]) != 1:
        raise InvalidOption(
            f"the check '{check.name}' has not one row and one column",
            advice="select one boolean: SELECT count(*) = 0 FROM … WHERE …",
        )
    value = rows[0][0]
    if value is not None and not isinstance(value, bool):
        raise InvalidOption(
            f"the check '{check.name}' is {value!r}, no boolean", advice="compare: SELECT count(*) = 0 …"
        )
    return CheckResult(check.name, check.kind, value is True, str(value).lower() if value is not None else "null")


def first_failure(results: Iterable[CheckResult]) -> SnapshotError | None:
    """Return the error for checks that do not hold; None if all do."""
    failed = failures(results)
    if not failed:
        return None
    shown = "; ".join(f"{item.name}: {item.found}" for item in failed[:5])
    return CheckFailed(
        f"{len(failed)} of the checks failed: {shown}" if len(failed) > 1 else f"a check failed: {shown}",
        advice="nothing was written; correct the sources, or the check",
    )
