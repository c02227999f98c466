"""``stateproc classes``: list the user classes that a snapshot mentions."""

from __future__ import annotations

import json
import sys
from argparse import Namespace

from stateproc.cli.arguments import open_snapshot
from stateproc.cli.exit_status import YES
from stateproc.verification.class_mentions import class_skeleton, mentioned_classes


def classes_command(arguments: Namespace) -> int:
    """Print the classes as a table or JSON, or the skeleton of their descriptions; return the exit status."""
    snapshot = open_snapshot(arguments)
    operators = [snapshot.operator(uid) for uid in arguments.uid] or list(snapshot.operators)
    found = mentioned_classes(operators)
    problems = [str(problem) for operator in operators for problem in operator.problems]
    skeleton = class_skeleton(found)
    if arguments.skeleton:
        _print_json(skeleton)
    elif arguments.json:
        classes = [item.to_dict() for item in found]
        _print_json({"path": snapshot.path, "classes": classes, "skeleton": skeleton, "problems": problems})
    else:
        from stateproc.cli.render.classes_view import classes_view
        from stateproc.cli.render.terminal import show

        show(classes_view(found, problems))
    return YES


def _print_json(value: object) -> None:
    json.dump(value, sys.stdout, ensure_ascii=False, indent=2)
    print()
