"""``stateproc demo``: run the commands on a bundled snapshot, and print each with its output."""

from __future__ import annotations

import io
import json
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from importlib.util import find_spec

from stateproc.cli.exit_status import UNREADABLE, YES
from stateproc.demo.bundled import bundled_snapshot

_UIDS = "orders-from-kafka,orders-per-customer,revenue-per-product"


@dataclass(frozen=True)
class DemoStep:
    """A question, and the command that answers it; ``$SHOP`` is the path of the snapshot."""

    question: str
    command: str


STEPS = (
    DemoStep("What is in this snapshot?", f"inspect $SHOP --uids {_UIDS}"),
    DemoStep("From which offsets does the job resume?", "offsets $SHOP --uids orders-from-kafka"),
    DemoStep(
        "What is stored for customer 42? (reads one key group of 128)",
        'read $SHOP --uid orders-per-customer --state profile --where "key = 42"',
    ),
    DemoStep(
        "Who spent more than 100 on tea? (a map, one row per entry)",
        "read $SHOP --uid orders-per-customer --state spent-per-product --flatten "
        "--where \"map_key = 'tea' AND map_value > 100\" --format table --limit 5",
    ),
    DemoStep(
        "Which windows are open?",
        "read $SHOP --uid revenue-per-product --state window-contents --format table --limit 5",
    ),
    DemoStep(
        "Which timers are set?",
        "read $SHOP --uid orders-per-customer --timers event --temporal micros --format table --limit 5",
    ),
)


@dataclass(frozen=True)
class DemoAnswer:
    """A step that was run: its command with the output and the exit status."""

    question: str
    command: str
    output: str
    status: int


def demo_command(arguments: Namespace) -> int:
    """Run all steps; return 0 if every command succeeded."""
    shop = bundled_snapshot("shop")
    if arguments.path:
        print(shop)
        return YES
    if arguments.json:
        answers = [*_answers(shop)]
        content = {"snapshot": shop, "steps": [asdict(answer) for answer in answers]}
        print(json.dumps(content, ensure_ascii=False, indent=2))
        return YES if all(answer.status == 0 for answer in answers) else UNREADABLE
    print(f"$ SHOP={shop}")
    statuses = []
    for step in _steps():
        print(f"\n{_bold('# ' + step.question)}\n$ stateproc {step.command}", flush=True)
        statuses.append(_run(step, shop))
    if len(_steps()) < len(STEPS):
        print("\nConditions and SQL need one more package: pip install 'stateproc[sql]'")
    print("\nYour turn: stateproc inspect PATH of a savepoint or checkpoint, or stateproc notebook DIR")
    return YES if not any(statuses) else UNREADABLE


def _steps() -> list[DemoStep]:
    """Return the steps that can be run: those with conditions need DuckDB, which a plain installation does not have."""
    conditions = find_spec("duckdb") is not None
    return [step for step in STEPS if conditions or "--where" not in step.command]


def _answers(shop: str) -> Iterator[DemoAnswer]:
    for step in _steps():
        printed = io.BytesIO()
        text = io.TextIOWrapper(printed, encoding="utf-8", write_through=True)
        with redirect_stdout(text):
            status = _run(step, shop)
        yield DemoAnswer(step.question, f"stateproc {step.command}", printed.getvalue().decode(), status)


def _run(step: DemoStep, shop: str) -> int:
    from stateproc.cli.app import main  # Lazy: app imports the table of commands.

    return main([word.replace("$SHOP", shop) for word in shlex.split(step.command)])


def _bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if sys.stdout.isatty() else text
