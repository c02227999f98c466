"""Note the plans of writes while a test runs."""

from __future__ import annotations

from typing import Any

import pytest

from stateproc.writers import savepoint_writer
from stateproc.writers.plan.planning import WritePlan


def noted_plans(monkeypatch: pytest.MonkeyPatch) -> list[WritePlan]:
    """Return a list to which each plan is added that a `SavepointWriter` makes from now on."""
    made: list[WritePlan] = []
    plan_write = savepoint_writer.plan_write

    def noted(*arguments: Any, **options: Any) -> WritePlan:
        made.append(plan_write(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(savepoint_writer, "plan_write", noted)
    return made
