"""``stateproc notebook``: copy the notebooks and the bundled snapshots into a folder."""

from __future__ import annotations

import json
import shlex
from argparse import Namespace
from pathlib import Path

from stateproc.cli.exit_status import YES
from stateproc.demo.bundled import copy_notebooks


def notebook_command(arguments: Namespace) -> int:
    """Copy the files, print them and how to start Jupyter; return the exit status."""
    copied = copy_notebooks(Path(arguments.folder), overwrite=arguments.overwrite)
    if arguments.json:
        print(json.dumps(copied.to_dict(), ensure_ascii=False, indent=2))
        return YES
    for name in copied.notebooks:
        print(Path(copied.folder, name))
    for path in copied.snapshots.values():
        print(f"{path}/")
    print(
        "\nStart them with\n"
        "  pip install 'stateproc[notebook]' jupyterlab\n"
        f"  jupyter lab {shlex.quote(copied.folder)}\n"
        "Each opens a bundled snapshot until you set PATH in its first cell."
    )
    return YES
