"""``stateproc verify``: read all of a snapshot and report every problem."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stateproc.cli.arguments import open_snapshot, option_values
from stateproc.cli.exit_status import NO, YES
from stateproc.cli.progress import progress
from stateproc.cli.terminal import print_json, show, text_table, without_controls
from stateproc.errors import InvalidOption, Where, WriteFailed
from stateproc.html.units import counted, human_bytes, some_of
from stateproc.options import BY_NAME
from stateproc.verification.class_mentions import Skeleton
from stateproc.verification.problem import Problem, Severity, once_per_directory
from stateproc.verification.report import Verification, VerifiedOperator
from stateproc.verification.verify import plan_verification


def verify_command(arguments: Namespace) -> int:
    """Print what was found, as text or as JSON; return the exit status."""
    snapshot = open_snapshot(arguments)
    run = plan_verification(
        snapshot,
        uids=arguments.uid,
        states=arguments.state,
        deep=arguments.deep,
        threads=option_values(arguments, (BY_NAME["threads"],))["threads"],
        hash_function=_functions(arguments.hash_function or []),
    )
    with progress("verifying", run.bytes) as advance:
        result = run.run(advance)
    file = arguments.classes_skeleton
    if file is not None and result.skeleton:
        _write(file, result.skeleton)
    if arguments.json:
        print_json(result.to_dict())
    else:
        show(verification_view(result, skeleton_file=file))
    return YES if result.is_intact else NO


def _functions(given: list[str]) -> dict[str, str]:
    """Return the formulas of UID=NAME. Raises InvalidOption."""
    pairs = [text.rpartition("=") for text in given]
    for text, (uid, _, name) in zip(given, pairs, strict=True):
        if not uid or not name:
            raise InvalidOption(f"--hash-function {text}", advice="give UID=NAME, such as orders=record:name,count")
    return {uid: name for uid, _, name in pairs}


def _write(file: str, skeleton: Skeleton) -> None:
    """Write the skeleton to a new file: descriptions that someone has filled in are not replaced."""
    try:
        with Path(file).open("x", encoding="utf-8") as target:
            target.write(json.dumps(skeleton, ensure_ascii=False, indent=2) + "\n")
    except OSError as error:
        raise WriteFailed(
            f"the skeleton cannot be written: {error.strerror}",
            where=Where(file=file),
            advice="give the name of a file that does not exist, in a directory that does",
        ) from error


# Show the result of ``verify``: a table of operators, the problems, what to do, and a verdict.

_MOST_PROBLEMS, _MOST_ALIKE, _MOST_NAMES = 50, 5, 12
_COLORS = {Severity.DAMAGED: "red", Severity.UNREADABLE: "yellow", Severity.NOTE: "dim"}
_MARKS = {Severity.DAMAGED: "✗", Severity.UNREADABLE: "?", Severity.NOTE: "·"}


def verification_view(result: Verification, *, skeleton_file: str | None = None) -> Group:
    """Return the result as something that rich can print.

    Args:
        result: What was found.
        skeleton_file: Where the skeleton of class descriptions was written; None if it is to be shown.
    """
    parts: list[RenderableType] = []
    with_data = [operator for operator in result.operators if operator.files or operator.states or operator.problems]
    if with_data:
        parts.append(_table(with_data))
    without = len(result.operators) - len(with_data)
    if without:
        parts.append(Text(f"{counted(without, 'operator')} without state", "dim"))
        parts += [Text()] if result.problems else []
    if result.problems:
        parts += _problems(result.problems, result.path.rstrip("/") + "/")
    if result.skeleton:
        parts += _skeleton(result, skeleton_file)
    if without or result.problems or result.skeleton:
        parts.append(Text())
    return Group(*parts, _verdict(result))


def _table(operators: Iterable[VerifiedOperator]) -> Table:
    table = text_table("operator")
    for name in ("states", "rows", "bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for operator in operators:
        table.add_row(
            _named(operator),
            str(len(operator.states)),
            _rows(operator),
            human_bytes(operator.bytes),
            _outcome(operator),
        )
    return table


def _named(operator: VerifiedOperator) -> Text:
    text = Text(without_controls(operator.display), "bold")
    name = operator.name if operator.name != operator.display else None
    if name or operator.label:
        text.append(f"  {without_controls(name or operator.label or '')}", "dim italic")
    return text


def _rows(operator: VerifiedOperator) -> Text:
    rows = sum(state.read_rows for state in operator.states)
    if all(state.rows is not None for state in operator.states):
        return Text(f"{rows:,}")
    return Text(f"≥ {rows:,}", "yellow") if rows else Text("–")


def _outcome(operator: VerifiedOperator) -> Text:
    if operator.problems:
        return Text(f"✗ {counted(operator.problems, 'problem')}", "red")
    return Text("✓", "green")


def _problems(problems: Sequence[Problem], folder: str) -> list[RenderableType]:
    """Return the problems, of those that need the same to be done the first ones."""
    parts: list[RenderableType] = []
    alike: dict[tuple[Severity, str], int] = {}
    shown = 0
    problems = list(once_per_directory(problems))
    for problem in problems:
        need = problem.severity, problem.advice or problem.what
        alike[need] = alike.get(need, 0) + 1
        if alike[need] <= _MOST_ALIKE and shown < _MOST_PROBLEMS:
            shown += 1
            parts += _problem(problem, folder)
    if len(problems) > shown:
        parts.append(Text(f"… and {counted(len(problems) - shown, 'more problem')}, which --json lists", "dim"))
    return parts


def _problem(problem: Problem, folder: str) -> tuple[RenderableType, RenderableType]:
    times = f" ({problem.occurrences} times)" if problem.occurrences > 1 and not problem.key_groups else ""
    mark = f"{_MARKS[problem.severity]} {problem.severity.value}  "
    head = Text.assemble((mark, _COLORS[problem.severity]), without_controls(problem.what) + times)
    lines = [Text(without_controls(text), "dim") for text in _places(problem, folder)]
    if problem.advice:
        lines.append(Text(f"→ {without_controls(problem.advice, keep_lines=True)}"))
    return head, Padding(Group(*lines), (0, 0, 0, 2))


def _places(problem: Problem, folder: str) -> list[str]:
    """Return where a problem is, in lines; files in the snapshot's directory without its path."""
    inside = [f"operator {problem.operator}"] if problem.operator else []
    if problem.states:
        inside.append(f"state{'s' if len(problem.states) > 1 else ''} {some_of(problem.states, _MOST_NAMES)}")
    if problem.key_groups:
        inside.append(f"key group{'s' if len(problem.key_groups) > 1 else ''} {_runs(problem.key_groups)}")
    lines = [" · ".join(inside)] if inside else []
    if problem.file is not None:
        lines.append(
            problem.file.removeprefix(folder) + (f", byte {problem.offset:,}" if problem.offset is not None else "")
        )
    return lines


def _runs(numbers: Sequence[int]) -> str:
    """Return ascending numbers with neighbours joined: ``0–3, 7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in runs)


def _skeleton(result: Verification, file: str | None) -> list[RenderableType]:
    number = len(result.skeleton)
    need = f"{counted(number, 'class', 'classes')} {'needs' if number == 1 else 'need'} a description"
    parts: list[RenderableType] = [Text()]
    if file is not None:
        parts.append(Text(f"{need}: complete {file} and verify again with --classes {file}"))
        return parts
    parts.append(
        Text(f"{need}: complete this file and verify again with --classes FILE (--classes-skeleton FILE writes it)")
    )
    parts.append(Text(json.dumps(result.skeleton, ensure_ascii=False, indent=2), "cyan"))
    return parts


def _verdict(result: Verification) -> Text:
    """Return the last line: whether the snapshot is intact, what was read, and how fast."""
    seconds = max(result.seconds, 1e-3)
    rates = f"{human_bytes(int(result.bytes / seconds))}/s, {result.rows / seconds:,.0f} rows/s"
    read = (
        f"{counted(result.files, 'file')}, {human_bytes(result.bytes)}, {counted(result.rows, 'row')} "
        f"in {result.seconds:.1f} s ({rates})"
    )
    if result.is_intact:
        notes = len(result.problems)
        more = f", {counted(notes, 'note')}" if notes else ""
        return Text.assemble(("✓ intact", "bold green"), f"{more}: {read}")
    counts = {severity: 0 for severity in Severity if severity.is_problem}
    for problem in result.problems:
        if problem.severity.is_problem:
            counts[problem.severity] += 1
    kinds = ", ".join(f"{number:,} {severity.value}" for severity, number in counts.items() if number)
    number = sum(counts.values())
    return Text.assemble((f"✗ {counted(number, 'problem')}", "bold red"), f" ({kinds}): {read}")
