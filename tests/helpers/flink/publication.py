"""From the folder in which Flink wrote a case to its fixture."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.helpers.flink.cases import Case
from tests.helpers.flink.chains import Chain
from tests.helpers.flink.jars import RELEASES

LOG = "changes.jsonl"
"""What a job has written of its changes."""


def publish(case: Case, release: str, run: Path, home: Path) -> None:
    """Copies what a case wrote in `run` to `home` and says in a manifest what it is."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    manifest = _chain(case, release, run, home) if isinstance(case, Chain) else _single(case, release, run, home)
    (home / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


def written(case: Case, run: Path) -> bool:
    """Whether the case was written to its end."""
    return (run / ("snapshots.tsv" if isinstance(case, Chain) else "snapshot.path")).is_file()


def _manifest(case: Case, release: str) -> dict[str, Any]:
    return {
        "release": release,
        "flink": RELEASES[release],
        "case": case.name,
        "job": case.job,
        "mode": case.mode,
        "backend": case.backend,
        "kind": case.snapshot,
        "parallelism": case.parallelism,
        "max_parallelism": case.max_parallelism,
        "compression": case.compression,
        "options": dict(case.options),
    }


def _single(case: Case, release: str, run: Path, home: Path) -> dict[str, Any]:
    taken = Path((run / "snapshot.path").read_text().strip())
    checkpoint = case.snapshot == "checkpoint"
    root = run / "snapshot" if checkpoint else taken
    shutil.copytree(root, home / "snapshot")
    shutil.copy(run / "expected.jsonl", home / "expected.jsonl")
    snapshot = str(Path("snapshot") / taken.relative_to(root))
    if checkpoint:
        _drop_unreferenced(home, [snapshot])
    return _manifest(case, release) | {"snapshot": snapshot, "original_root": f"file:{root}"}


def _chain(case: Chain, release: str, run: Path, home: Path) -> dict[str, Any]:
    root = run / "snapshot"
    shutil.copytree(root, home / "snapshot")
    members = []
    for line in (run / "snapshots.tsv").read_text().splitlines():
        path, kind, parallelism, number, start, end, *hours = line.split("\t")
        member = {
            "snapshot": str(Path("snapshot") / Path(path).relative_to(root)),
            "kind": kind,
            "parallelism": int(parallelism),
        }
        if hours:
            completed = (Path(path) / "_metadata").stat().st_mtime_ns // 1_000_000
            members.append(member | {"step": int(number), "hours": int(hours[0]), "completed": completed})
        else:
            shutil.copy(run / f"expected-{number}.jsonl", home)
            members.append(member | {"expected": f"expected-{number}.jsonl", "told": [int(start), int(end)]})
    if (run / LOG).exists():
        shutil.copy(run / LOG, home / LOG)
    _drop_unreferenced(home, [str(member["snapshot"]) for member in members])
    return _manifest(case, release) | {
        "stages": [{"parallelism": s.parallelism, "steps": s.steps, "options": dict(s.options)} for s in case.stages],
        "time_to_live": case.time_to_live,
        "key_type": case.key_type,
        "snapshots": members,
        "original_root": f"file:{root}",
    }


def _drop_unreferenced(home: Path, snapshots: list[str]) -> None:
    """Removes other checkpoints, unfinished ones too, and files that none of the snapshots names."""
    kept = [home / snapshot for snapshot in snapshots]
    for folder in home.glob("snapshot/*/chk-*"):
        if folder not in kept:
            shutil.rmtree(folder)
    metadata = b"".join((snapshot / "_metadata").read_bytes() for snapshot in kept)
    for file in home.glob("snapshot/**/*"):
        if file.is_file() and file.parent not in kept and file.name.encode() not in metadata:
            file.unlink()
