"""Compares what Flink restored of a rewritten snapshot with what a job has to find."""

from __future__ import annotations

from pathlib import Path

import stateproc
from tests.helpers.flink.restoration import Restored
from tests.helpers.flink.restored_state import differences, in_their_windows
from tests.helpers.flink.rewrites import Rewrite


def restored_differences(rewrite: Rewrite, path: Path, restored: Restored) -> list[str]:
    """Return what differs, empty if Flink restored all under every backend and found the contents.

    Args:
        rewrite: What was written.
        path: The savepoint.
        restored: What Flink restored of it.
    """
    found = [f"{run}: {error}" for run, error in restored.failures().items()]
    found += [f"{at}: {answer}" for at, answer in restored.compatibility.items() if answer != "as is"]
    found += [f"{at} is not read" for at in sorted(restored.unread)]
    lines = list(rewrite.expected(rewrite.source.expected()))
    for (backend, parallelism), run in restored.runs.items():
        texts = differences(lines, in_their_windows(run.contents), parallelism=parallelism)
        found += [f"{backend}: {text}" for text in texts]
    keyed = any(operator.keyed_states for operator in rewrite.source.open().operators)
    groups = {operator.max_parallelism for operator in stateproc.open(path).operators if operator.keyed_states}
    if groups != ({rewrite.max_parallelism} if keyed else set()):
        found.append(f"{groups} key groups")
    return found
