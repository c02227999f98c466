"""The steps of a write on the files below a directory, as Python's audit hooks see them."""

from __future__ import annotations

import os
from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
LOOKS = ("os.scandir", "os.listdir")
"""Events of directories that are listed."""


def step_of(event: str, arguments: tuple[Any, ...], below: str) -> str | None:
    """The name of a step on the target's files; None of other events."""
    if event == "open":
        path, mode, flags = arguments
        writes = flags & _WRITES if isinstance(flags, int) else "w" in (mode or "")
        paths = [path] if writes else []
    elif event in ("os.rename", "os.link"):
        paths = list(arguments[:2])
    elif event in ("os.remove", "os.rmdir", "os.mkdir", "os.truncate"):
        paths = list(arguments[:1])
    else:
        return None
    named = [str(path) for path in paths if isinstance(path, str | os.PathLike) and str(path).startswith(below)]
    return f"{event} {', '.join(name.removeprefix(below) or '.' for name in named)}" if named else None


def look_of(event: str, arguments: tuple[Any, ...], below: str) -> str | None:
    """The name of an event that only looks at what is there: a directory is listed, a file is opened to be read."""
    if event not in (*LOOKS, "open") or not str(arguments[0]).startswith(below):
        return None
    return f"{event} {str(arguments[0]).removeprefix(below) or '.'}"
