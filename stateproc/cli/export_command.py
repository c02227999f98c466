"""``stateproc export``: write states into a directory."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack

from stateproc.cli.arguments import open_snapshot, option_values
from stateproc.cli.exit_status import NO, YES
from stateproc.cli.progress import progress
from stateproc.options import BY_NAME, ROW_OPTIONS, Interface


def export_command(arguments: Namespace) -> int:
    """Export the states that the arguments select; return the exit status, 1 if something could not be read."""
    snapshot = open_snapshot(arguments)
    rows = option_values(arguments, ROW_OPTIONS)
    with ExitStack() as stack:

        def start(total: int) -> Callable[[int], None]:
            return stack.enter_context(progress(f"exporting to {arguments.output}", total))

        manifest = snapshot.export(
            arguments.output,
            format=arguments.format,
            uids=arguments.uid,
            states=arguments.state,
            compression=arguments.compression,
            temporal=arguments.temporal,
            raw=rows["raw"],
            flatten=rows["flatten"],
            key_group_ranges=arguments.key_group_ranges,
            threads=rows["threads"],
            overwrite=arguments.overwrite,
            storage_options=_storage_options(arguments.output_storage_options),
            _start=start,
        )
    if arguments.json:
        print(json.dumps(manifest.to_dict(), indent=2, ensure_ascii=False))
    else:
        # Lazy: start-up. Only tables need rich.
        from stateproc.cli.render.export_view import export_view
        from stateproc.cli.render.terminal import show

        show(export_view(manifest))
    for problem in (*(state.problem for state in manifest.unreadable), *manifest.problems):
        print(f"not exported: {problem}", file=sys.stderr)
    return NO if manifest.unreadable or manifest.problems else YES


def _storage_options(given: list[str] | None) -> dict[str, object] | None:
    if given is None:
        return None
    option = BY_NAME["storage_options"]
    return {name: value for text in given for name, value in option.value(text, Interface.CLI).items()}
