"""``stateproc verify``: read all of a snapshot and report every problem."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path

from stateproc.cli.arguments import open_snapshot, option_values
from stateproc.cli.exit_status import NO, YES
from stateproc.cli.progress import progress
from stateproc.errors import InvalidOption, Where, WriteFailed
from stateproc.options import BY_NAME
from stateproc.verification.class_mentions import Skeleton
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
        json.dump(result.to_dict(), sys.stdout, ensure_ascii=False, indent=2)
        print()
    else:
        from stateproc.cli.render.terminal import show
        from stateproc.cli.render.verification_view import verification_view

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
