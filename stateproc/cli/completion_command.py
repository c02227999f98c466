"""``stateproc completion``: print the code that makes a shell complete the arguments of ``stateproc``."""

from __future__ import annotations

from argparse import Namespace

from argcomplete.shell_integration import shellcode

from stateproc.cli.exit_status import YES


def completion_command(arguments: Namespace) -> int:
    """Print the code for the shell; return the exit status."""
    print(shellcode(["stateproc"], shell=arguments.shell))
    return YES
