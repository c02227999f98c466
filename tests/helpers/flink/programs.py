"""Run Java programs in JVMs that are kept: Flink's classes are loaded and compiled once for many tests."""

from __future__ import annotations

import atexit
import os
import subprocess
from collections import OrderedDict
from pathlib import Path

from tests.helpers.flink.compilation import JAVA
from tests.helpers.quick_java import QUICK_JAVA

KEPT = 2
"""JVMs that one process keeps, each of a class path, of about 1 GB: several processes run beside one another."""
_ENVIRONMENT = {"MALLOC_ARENA_MAX": "2"}
"""Of the memory that RocksDB frees the C library keeps 64 MB for each thread: 1.5 GB for a heap of 60 MB."""
_kept: OrderedDict[str, subprocess.Popen[str]] = OrderedDict()


def run_program(class_path: str, main: str, log: Path, *arguments: object) -> None:
    """Run the main method of a class, which must not end the JVM.

    Args:
        class_path: What the JVM finds; one of the same class path runs it, if there is one.
        main: The class.
        log: The file for what it prints.
        arguments: What it is given, without tabs.

    Raises:
        RuntimeError: It failed, or the JVM ended.
    """
    jvm = _jvm(class_path)
    assert jvm.stdin is not None and jvm.stdout is not None
    jvm.stdin.write("\t".join(map(str, (main, log, *arguments))) + "\n")
    jvm.stdin.flush()
    answer = jvm.stdout.readline().strip()
    if answer != "ended":
        _end(_kept.pop(class_path))
        raise RuntimeError(f"{main} {answer or 'ended the JVM'}:\n{log.read_text(encoding='utf-8')[-4000:]}")


def _jvm(class_path: str) -> subprocess.Popen[str]:
    if class_path not in _kept:
        while len(_kept) >= KEPT:
            _end(_kept.popitem(last=False)[1])
        # It ends when its input does, at the latest with this process.
        command = [*JAVA, *QUICK_JAVA, "-Dfile.encoding=UTF-8", "-cp", class_path, "fixtures.Programs"]
        _kept[class_path] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", env={**os.environ, **_ENVIRONMENT}
        )
    _kept.move_to_end(class_path)
    return _kept[class_path]


@atexit.register
def _end_all() -> None:
    while _kept:
        _end(_kept.popitem()[1])


def _end(jvm: subprocess.Popen[str]) -> None:
    assert jvm.stdin is not None and jvm.stdout is not None
    jvm.stdin.close()
    jvm.wait()
    jvm.stdout.close()
