"""``stateproc check``: answer whether a snapshot restores in a job, with the right values."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from stateproc.cli.arguments import open_snapshot
from stateproc.cli.exit_status import NO, YES
from stateproc.cli.terminal import print_json, show, without_controls
from stateproc.compatibility.check import check_snapshot
from stateproc.compatibility.declared_job import DeclaredOperator
from stateproc.compatibility.expected_job import expected_operators
from stateproc.compatibility.job_graph import read_job_graph
from stateproc.compatibility.verdicts import CompatibilityCheck, OperatorCheck, StateCheck, Verdict
from stateproc.errors import InvalidOption, Where
from stateproc.html.units import counted
from stateproc.jobs.job_document import parse_document
from stateproc.query_plans.plan_file import read_plan


def check_command(arguments: Namespace) -> int:
    """Print the verdicts, as text or as JSON; return the exit status."""
    snapshot = open_snapshot(arguments)
    like = None if arguments.like is None else open_snapshot(arguments, path=arguments.like)
    expect = None if arguments.expect is None else _expected(arguments.expect)
    old, new = (None if plan is None else read_plan(plan) for plan in (arguments.from_plan, arguments.to_plan))
    job = None if arguments.job is None else read_job_graph(arguments.job)
    result = check_snapshot(
        snapshot,
        flink_version=arguments.flink_version,
        like=like,
        expect=expect,
        to_plan=new,
        from_plan=old,
        job=job,
        backend=arguments.backend,
        claim_mode=arguments.claim_mode,
    )
    if arguments.json:
        print_json(result.to_dict())
    else:
        show(check_view(result))
    return YES if result.restores else NO


def _expected(file: str) -> tuple[DeclaredOperator, ...]:
    """Read the states that a job declares. Raises InvalidOption."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOption(
            f"the states of the job cannot be read: {error}",
            where=Where(file=file),
            advice="`stateproc describe SNAPSHOT --expect` prints such a file",
        ) from error
    document = parse_document(text, file)
    return expected_operators(document.value, document.error)


_COLORS = {
    Verdict.AS_IS: "green",
    Verdict.AFTER_MIGRATION: "green",
    Verdict.STARTS_EMPTY: "cyan",
    Verdict.DROPPED: "yellow",
    Verdict.MISREAD: "red",
    Verdict.REFUSED: "red",
}


def check_view(result: CompatibilityCheck) -> Group:
    """Return the verdicts as something that rich can print: what is as it was in one line per operator."""
    parts: list[RenderableType] = []
    if result.reasons:
        parts += [*_explained(result.reasons, (), result.exception, result.fix), Text()]
    for operator in result.operators:
        if operator.states or operator.reasons:
            parts += _operator(operator)
    without = sum(not operator.states and not operator.reasons for operator in result.operators)
    if without:
        parts.append(Text(f"{counted(without, 'operator')} without state", "dim"))
    for caution in result.cautions:
        parts += [Text(), Text(without_controls(caution.what), "yellow"), Text(f"→ {without_controls(caution.fix)}")]
    return Group(*parts, Text(), _answer(result))


def _operator(operator: OperatorCheck) -> Iterator[RenderableType]:
    title = Text(without_controls(operator.display), "bold")
    if operator.name and operator.name != operator.display:
        title.append(f"  {without_controls(operator.name)}", "dim italic")
    yield title
    lines: list[RenderableType] = list(_explained(operator.reasons, (), operator.exception, operator.fix))
    for state in operator.states:
        lines.append(_state(state))
        alike = state.reasons == operator.reasons
        own = () if alike else tuple(_explained(state.reasons, state.losses, state.exception, state.fix))
        if own:
            lines.append(Padding(Group(*own), (0, 0, 0, 2)))
    yield Padding(Group(*lines), (0, 0, 0, 2))


def _state(state: StateCheck) -> Text:
    kind = state.kind if state.distribution in ("keyed", state.kind) else f"{state.distribution} {state.kind}"
    verdict = f"{state.verdict.value}, with losses" if state.losses and state.verdict is not Verdict.MISREAD else None
    color = "yellow" if verdict else _COLORS[state.verdict]
    return Text.assemble(
        (verdict or state.verdict.value, color), f"  {without_controls(state.name)}", (f"  {kind}", "dim")
    )


def _explained(reasons: Sequence[str], losses: Sequence[str], exception: str | None, fix: str | None) -> Iterator[Text]:
    for reason in reasons:
        yield Text(without_controls(reason))
    for loss in losses:
        yield Text(f"lost: {without_controls(loss)}", "yellow")
    if exception:
        yield Text(f"Flink: {without_controls(exception)}", "dim")
    if fix:
        yield Text(f"→ {without_controls(fix)}")


def _answer(result: CompatibilityCheck) -> Text:
    """Return the last line: whether it restores, where and how many states have which verdict."""
    counts: dict[Verdict, int] = {}
    for _, state in result.states:
        counts[state.verdict] = counts.get(state.verdict, 0) + 1
    shown = ", ".join(f"{counts[verdict]:,} {verdict.value}" for verdict in Verdict if verdict in counts)
    where = f"in Flink {result.flink_version} ({without_controls(result.job)})"
    states = f": {shown}" if shown else ""
    if result.restores:
        return Text.assemble(("✓ restores", "bold green"), f" {where}{states}")
    return Text.assemble(("✗ does not restore with the right values", "bold red"), f" {where}{states}")
