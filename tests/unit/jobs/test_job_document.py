"""Job files: YAML 1.2 with the line of each value; hostile input is refused before it is built."""

from __future__ import annotations

import pytest

from stateproc.errors import InvalidOption
from stateproc.jobs.job_document import MOST_BYTES, parse_document


def test_scalars_are_those_of_yaml_1_2() -> None:
    text = "a: [1, '2', 1e3, yes, true, 2026-01-01, 12:30:00, ~, !!str 12, '']"
    found = parse_document(text).value["a"]
    assert found == [1, "2", 1000.0, "yes", True, "2026-01-01", "12:30:00", None, "12", ""]


def test_json_is_accepted() -> None:
    assert parse_document('{"job": "x", "a": [1, {"b": null}]}').value == {"job": "x", "a": [1, {"b": None}]}


def test_each_value_has_its_line() -> None:
    document = parse_document("job: x\nsources:\n  a:\n    path: y\n", "job.yaml")
    assert str(document.error(("sources", "a", "path"), "is wrong", "correct it")) == (
        "line 4: is wrong\n  4 | path: y\n  [file job.yaml]\n  → correct it"
    )
    assert "line 3: " in str(document.error(("sources", "a", "missing"), "is missing"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: !!python/object/apply:os.system [id]", "line 1: the tag tag:yaml.org,2002:python/object/apply:os.system"),
        ("a: !custom b", "the tag !custom is not supported"),
        ("[" * 100_000, "more than 24 levels"),
        ("- " * 100_000, "more than 24 levels"),
        ("a: &a [*a]", "more than 24 levels"),
        ("a: " + "x" * MOST_BYTES, "a job file of 1048579 characters"),
        ("a: 1\nb: 2\na: 3", "line 3: the key 'a' is given twice"),
        ("b:\n  <<: {a: 1}", "line 2: merge keys"),
        ("? [1]\n: 2", "a key that is no text"),
        ("a: 1\n---\nb: 2", "line 2: no YAML: but found another document"),
        ("a: [", "line 1: no YAML"),
        ("a: \x00", "no YAML"),
    ],
)
def test_what_is_refused(text: str, says: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        parse_document(text, "job.yaml")
    assert says in str(caught.value)


def test_aliases_count_as_often_as_they_are_used() -> None:
    levels = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for before, name in zip("abcde", "bcdef", strict=True):
        levels.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]")
    with pytest.raises(InvalidOption, match="more than 20000 values"):
        parse_document("\n".join(levels))
