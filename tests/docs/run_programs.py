"""Run programs one after another in this process, so that they share one Spark session: `run_programs.py FILE…`.

Each has a namespace of its own and runs in the folder of its file. What it prints is in `FILE.out`, its exception in
`FILE.err`.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from pathlib import Path


def main(files: list[str]) -> None:
    """Run all files, whatever happens in one of them."""
    for file in map(Path, files):
        os.chdir(file.parent)
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), {"__name__": "__main__"})
        except Exception:
            file.with_suffix(".err").write_text(traceback.format_exc(), encoding="utf-8")
        file.with_suffix(".out").write_text(printed.getvalue(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
