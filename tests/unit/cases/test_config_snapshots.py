"""States whose serializers Flink 1.17 and later cannot restore are named, with what to do."""

from __future__ import annotations

import json

import pytest

from stateproc.cli import main
from tests.helpers.cases import CaseSnapshot, case_snapshots

SNAPSHOTS = [item for item in case_snapshots() if item.case == "config-snapshot"]
OF_AMOUNTS = ["amount", "amounts", "by-amount", "by-name", "ttl"]
"""All but those of Strings and Longs."""
WHY = "TypeSerializerConfigSnapshot, which Flink 1.17 has no longer"
ADVICE = "give the serializer a snapshot class of its own and take a savepoint in Flink 1.16"


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=str)
def test_verify_notes_the_states(snapshot: CaseSnapshot) -> None:
    opened = snapshot.open(**snapshot.options)
    notes = {item.operator: item for item in opened.verify().problems if item.severity.value == "note"}
    assert sorted(notes["amounts"].states) == OF_AMOUNTS
    assert set(notes["by-amount"].states) >= {"count", "by-string"}, "the key's serializer is of all states"
    assert all(WHY in item.what and ADVICE in item.advice for item in notes.values())
    assert opened.verify().is_intact
    one = opened.verify(uids=["amounts"], states=["aa-first"])
    assert not [item for item in one.problems if item.severity.value == "note"], "of states that are not verified"


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=str)
def test_commands_note_the_states(snapshot: CaseSnapshot, capsys: pytest.CaptureFixture[str]) -> None:
    words = [snapshot.path, "--uids", "amounts,by-amount", "--plugins", snapshot.options["plugins"]]
    for command in ("inspect", "verify"):
        assert main([command, *words]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert WHY in shown and ADVICE in shown
    assert main(["inspect", *words, "--json"]) == 0
    operators = {item["uid"]: item for item in json.loads(capsys.readouterr().out)["operators"]}
    (note,) = [text for text in operators["amounts"]["notes"] if WHY in text]
    assert ADVICE in note and all(f"'{name}'" in note for name in OF_AMOUNTS) and "zz-later" not in note
    assert main(["verify", *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["intact"] and {item["operator"] for item in found["problems"]} >= {"amounts", "by-amount"}
