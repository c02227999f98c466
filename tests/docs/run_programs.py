"""Run programs one after another in this process, so that they share one Spark session: `run_programs.py FILE…`.

Each has a namespace of its own and runs in the folder of its file; views and settings of one are gone when the next
begins. What it prints is in `FILE.out`, its exception in `FILE.err`.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from pathlib import Path

from pyspark.sql import SparkSession


def main(files: list[str]) -> None:
    """Run all files, whatever happens in one of them."""
    settings: dict[str, str] = {}
    for file in map(Path, files):
        os.chdir(file.parent)
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), {"__name__": "__main__"})
        except Exception:
            file.with_suffix(".err").write_text(traceback.format_exc(), encoding="utf-8")
        file.with_suffix(".out").write_text(printed.getvalue(), encoding="utf-8")
        session = SparkSession.getActiveSession()
        if session is not None:
            settings = settings or session.conf.getAll
            clean(session, settings)


def clean(session: SparkSession, settings: dict[str, str]) -> None:
    """Drop the views of a session, and set it to these settings again."""
    for view in session.catalog.listTables():
        if view.isTemporary:
            session.catalog.dropTempView(view.name)
    changed = session.conf.getAll
    for name in changed.keys() - settings.keys():
        if session.conf.isModifiable(name):
            session.conf.unset(name)
    for name, value in settings.items():
        if changed.get(name) != value and session.conf.isModifiable(name):
            session.conf.set(name, value)


if __name__ == "__main__":
    main(sys.argv[1:])
