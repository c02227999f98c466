"""Variables of jobs: values by --set and the environment, secrets by name only."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateproc.errors import InvalidOption, NotFound
from stateproc.jobs.loading import Secrets, load_job

JOB = """\
job: copy
variables: {name: a, n: 4, root: "${env:ROOT}/x"}
base: {path: "${root}/${name}"}
changes:
  - rescale: {max_parallelism: "${n}", parallelism: {orders: "${n}"}}
target:
  path: "${root}/{name}-{date}-{run_id}"
  max_parallelism: ${n}
"""


def _job(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "job.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_variables_are_replaced_and_have_the_type_of_their_default(tmp_path: Path) -> None:
    given = {"name": "7", "date": "2026-01-31", "n": "8"}
    job = load_job(_job(tmp_path, JOB), given, {"ROOT": "/data"})
    assert (job.base and job.base.where) == "/data/x/7"
    assert job.target.path == "/data/x/7-2026-01-31-${run_id}"
    assert job.target.max_parallelism == 8


def test_a_value_that_does_not_fit_shows_the_line_of_its_use(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="line 5: 'many' is not a whole number"):
        load_job(_job(tmp_path, JOB), {"n": "many"}, {"ROOT": "/"})


@pytest.mark.parametrize(
    ("given", "environment", "says"),
    [
        ({"nme": "b"}, {"ROOT": "/"}, "no variable 'nme' in the job"),
        ({}, {}, "line 2: the environment variable ROOT is not set"),
        ({}, {"ROOT": "${name}"}, "the value of ROOT contains"),
        ({"run_id": "../x"}, {"ROOT": "/"}, "the run id '../x'"),
    ],
)
def test_what_is_refused(tmp_path: Path, given: dict[str, str], environment: dict[str, str], says: str) -> None:
    with pytest.raises((InvalidOption, NotFound)) as caught:
        load_job(_job(tmp_path, JOB), given, environment)
    assert says in str(caught.value)


def test_an_unknown_reference_shows_its_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="line 3: there is no variable 'unknown'"):
        load_job(_job(tmp_path, JOB.replace("${root}/${name}", "${unknown}")), {}, {"ROOT": "/"})


def test_values_cannot_add_structure(tmp_path: Path) -> None:
    job = load_job(_job(tmp_path, JOB), {"name": "x}\nlatest: y"}, {"ROOT": "/"})
    assert job.latest is None
    assert "x}\nlatest: y" in job.target.path


def test_secrets_are_read_when_they_are_used_and_removed_from_texts(tmp_path: Path) -> None:
    (tmp_path / "file_secret").write_text("from a file\n", encoding="utf-8")
    secrets = Secrets({"STATEPROC_SECRET_PASSWORD": "hunter2", "STATEPROC_SECRETS": str(tmp_path)})
    assert secrets.reveal({"a": ["x${secret:PASSWORD}", 1]}) == {"a": ["xhunter2", 1]}
    assert secrets.reveal("${secret:file_secret}") == "from a file"
    assert secrets.redact({"e": "failed: hunter2 and from a file"}) == {
        "e": "failed: ${secret:PASSWORD} and ${secret:file_secret}"
    }
    assert "hunter2" not in repr(secrets)
    odd = Secrets({"STATEPROC_SECRET_ODD": "a/b?c"})
    assert odd.reveal("${secret:ODD}") == "a/b?c"
    assert odd.redact_text("jdbc:x?password=a%2Fb%3Fc a/b?c") == "jdbc:x?password=${secret:ODD} ${secret:ODD}"
    with pytest.raises(InvalidOption, match="there is no secret 'other'"):
        secrets.reveal("${secret:other}")
    with pytest.raises(InvalidOption, match="there is no secret"):
        secrets.reveal("${secret:..}")


def test_a_job_keeps_secrets_by_name(tmp_path: Path) -> None:
    text = JOB.replace("${root}/${name}", "${secret:WHERE}")
    job = load_job(_job(tmp_path, text), {}, {"ROOT": "/", "STATEPROC_SECRET_WHERE": "hidden"})
    assert job.base and job.base.where == "${secret:WHERE}"
    assert "hidden" not in repr(job)


def test_a_default_can_contain_the_date(tmp_path: Path) -> None:
    text = JOB.replace("name: a", 'name: "day-${date}"')
    job = load_job(_job(tmp_path, text), {"date": "2026-01-31"}, {"ROOT": "/"})
    assert job.base and job.base.where == "//x/day-2026-01-31"
