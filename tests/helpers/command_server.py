"""Run `stateproc` commands as forks of one process that has imported their modules.

Documents show hundreds of commands, each of which would import modules for most of a second. A folder with a program
`stateproc` is put first on the path of programs: it passes its arguments, environment, directory and open files to the
server, whose fork runs the command with them, and ends with the status of the fork.

Run as ``python -m tests.helpers.command_server SOCKET``; the end of its standard input ends it.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from stateproc.cli import commands, main
from tests.helpers.document_runs import environment
from tests.helpers.paths import ROOT

_PROGRAM = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({path!r})
    request = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
    socket.send_fds(server, [len(request).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(request)
    status = server.recv(1)
    server.recv(1)  # ends with the process
sys.exit(status[0] if status else "stateproc was killed")
"""
_LAZY = ("duckdb", "fsspec.implementations.local", "jinja2", "pandas", "stateproc.jobs.job_run")
"""What commands import when they need it."""


@contextmanager
def command_server(folder: Path) -> Iterator[dict[str, str]]:
    """Start a server with its files in an empty folder; yield the environment in which `stateproc` is its program."""
    path, programs = folder / "socket", folder / "bin"
    programs.mkdir()
    program = programs / "stateproc"
    program.write_text(_PROGRAM.format(python=sys.executable, path=str(path)), encoding="utf-8")
    program.chmod(0o755)
    # A fork has no threads: those of OpenBLAS are not started.
    own = environment({"OPENBLAS_NUM_THREADS": "1"})
    command = [sys.executable, "-m", "tests.helpers.command_server", str(path)]
    with subprocess.Popen(command, cwd=ROOT, env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None and server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield {"PATH": f"{programs}:{own['PATH']}"}
        server.stdin.close()


def _serve(path: str) -> None:
    """Fork for each request until standard input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing waits for forks, which report their end themselves
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        print("ready", flush=True)
        while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
            connection, _ = listening.accept()
            with connection:
                if not os.fork():
                    listening.close()
                    sys.exit(_run(connection))


def _run(connection: socket.socket) -> int:
    """Run the command of a request in this process; return its status, after it is sent to the program."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, files, _, _ = socket.recv_fds(connection, 4, 3)
    with connection.makefile("rb") as stream:
        arguments, variables, folder = json.loads(stream.read(int.from_bytes(head, "big")))
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    try:
        status = main(arguments)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    os.dup(connection.fileno())  # stays open until the process has ended
    connection.sendall(bytes([status]))
    return status


if __name__ == "__main__":
    for module in iter_modules(commands.__path__, f"{commands.__name__}."):
        import_module(module.name)
    for name in _LAZY:
        import_module(name)
    gc.freeze()  # otherwise the collector would copy the pages that forks share
    _serve(sys.argv[1])
