"""The arguments of commands about whole snapshots, and about the installation (demo, notebook, completion, warmup)."""

from __future__ import annotations

from argparse import ArgumentParser

from stateproc.cli.arguments import CommandDefinition, add_open_options, add_options
from stateproc.cli.definitions.rows import row_count
from stateproc.options import BY_NAME


def _inspect_arguments(parser: ArgumentParser) -> None:
    add_open_options(parser)
    parser.add_argument("--uid", action="append", default=[], help="only this operator (uid, hash or name); repeatable")
    parser.add_argument("--summary", action="store_true", help="one line per operator")
    parser.add_argument("--min-bytes", metavar="N", help="only states and operators of this size or more, such as 10MB")
    parser.add_argument("--rocksdb", action="store_true", help="statistics of RocksDB's tables, per state")
    parser.add_argument("--since", metavar="CHECKPOINT", help="with --rocksdb: count files that this earlier one lacks")
    parser.add_argument("--scan", action="store_true", help="count entries and bytes of files over 64 MiB, too")
    add_options(parser, (BY_NAME["threads"],))
    parser.add_argument("--html", metavar="FILE", help="write one self-contained page; - is stdout")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


INSPECT = CommandDefinition("inspect", "show operators, states, types and sizes of a snapshot", _inspect_arguments)


def _ls_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "roots",
        nargs="*",
        metavar="ROOT",
        help="a directory above savepoints or checkpoints; default: the directories of --conf",
    )
    parser.add_argument(
        "--conf", metavar="FILE", help="Flink's config.yaml or flink-conf.yaml, or the directory that contains it"
    )
    parser.add_argument("--orphans", action="store_true", help="list files that no complete snapshot needs")
    parser.add_argument(
        "--min-age",
        metavar="AGE",
        help="with --orphans: younger files may belong to a checkpoint in progress, e.g. 90min, 12h; default 1d",
    )
    add_options(parser, (BY_NAME["storage_options"],))
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


LS = CommandDefinition(
    "ls",
    "list the savepoints and checkpoints below a directory",
    _ls_arguments,
    examples=(
        "stateproc ls s3://bucket/flink",
        "stateproc ls --conf /opt/flink/conf",
        "stateproc ls --orphans --min-age 7d /checkpoints",
    ),
)


_EXCLUSIVE = (("uid", "uid_hash"), ("state", "timers", "operator_state"))


def _describe_arguments(parser: ArgumentParser) -> None:
    add_open_options(parser)
    state = parser.add_argument_group("which state (default: all states of the operator)")
    for names in _EXCLUSIVE:
        add_options(state.add_mutually_exclusive_group(), (BY_NAME[name] for name in names))
    output = parser.add_argument_group("output")
    add_options(output, (BY_NAME["temporal"],))
    output.add_argument("--json", action="store_true", help="print the descriptions as JSON")
    output.add_argument(
        "--expect", action="store_true", help="print what all operators declare as YAML, for check --expect"
    )


DESCRIBE = CommandDefinition(
    "describe",
    "show the types of states in Flink, Arrow and Spark, and what conversion loses",
    _describe_arguments,
    ("stateproc describe /savepoints/savepoint-4f1b --uid orders --state totals",),
)


def _diff_arguments(parser: ArgumentParser) -> None:
    add_open_options(parser)
    parser.add_argument("other", metavar="OTHER", help="the later snapshot; what it adds counts as inserted")
    which = parser.add_argument_group("what is compared")
    which.add_argument("--uid", action="append", default=[], help="only this operator (uid, hash or name); repeatable")
    which.add_argument("--state", action="append", default=[], help="only states of this name; repeatable")
    which.add_argument("--last-access", action="store_true", help="times of last access (TTL) count, too")
    add_options(which, (BY_NAME["threads"],))
    output = parser.add_argument_group("output")
    output.add_argument("--rows", type=row_count, default=0, metavar="N", help="show N changed rows of each state")
    output.add_argument("--summary", action="store_true", help="one line per operator")
    output.add_argument(
        "--output", metavar="FILE", help="write all changed rows to FILE.jsonl, .parquet, .csv or .arrow"
    )
    output.add_argument("--json", action="store_true", help="print everything as JSON")


DIFF = CommandDefinition(
    "diff",
    "compare two snapshots: operators, states, and their contents key by key",
    _diff_arguments,
    (
        "stateproc diff chk-41 chk-42 --uids orders",
        "stateproc diff chk-41 chk-42 --uid orders --state totals --rows 10",
        "stateproc diff savepoint-heap savepoint-rocksdb --summary",
        "stateproc diff chk-41 chk-42 --output changes.parquet",
    ),
)


def _verify_arguments(parser: ArgumentParser) -> None:
    add_open_options(parser)
    what = parser.add_argument_group("what to verify")
    what.add_argument("--uid", action="append", default=[], help="only this operator (uid, hash or name); repeatable")
    what.add_argument("--state", action="append", default=[], metavar="S", help="only states of this name; repeatable")
    what.add_argument("--deep", action="store_true", help="let RocksDB open native databases, too (needs rocksdict)")
    what.add_argument(
        "--hash-function",
        action="append",
        metavar="UID=NAME",
        help="how an operator's keys of a class of its own are hashed, as for rescale: checks key groups; repeatable",
    )
    add_options(what, (BY_NAME["threads"],))
    output = parser.add_argument_group("output")
    output.add_argument(
        "--classes-skeleton", metavar="FILE", help="write the classes that need a description to FILE, for --classes"
    )
    output.add_argument("--json", action="store_true", help="print everything as JSON")


VERIFY = CommandDefinition(
    "verify",
    "read all files and states of a snapshot and report every problem",
    _verify_arguments,
    (
        "stateproc verify /savepoints/savepoint-4f1b",
        "stateproc verify /checkpoints/8a1e7c --deep --json",
        "stateproc verify /savepoints/savepoint-4f1b --classes-skeleton classes.json",
    ),
)


def _check_arguments(parser: ArgumentParser) -> None:
    add_open_options(parser)
    job = parser.add_argument_group("what the job is")
    job.add_argument(
        "--flink-version",
        metavar="VERSION",
        help="the release that the job runs on, such as 2.3; without --like the job is the one that wrote the snapshot",
    )
    job.add_argument(
        "--backend", choices=("hashmap", "rocksdb"), help="its state backend; default the one that wrote the snapshot"
    )
    job.add_argument(
        "--claim-mode",
        choices=("NO_CLAIM", "CLAIM", "LEGACY"),
        help="Flink's claim mode: whether the job fails under it, whose files it deletes, what its checkpoints need",
    )
    which = job.add_mutually_exclusive_group()
    which.add_argument(
        "--like", metavar="SNAPSHOT", help="a snapshot of the job, for example of a local run without data"
    )
    which.add_argument(
        "--expect", metavar="FILE", help="the states that the job declares, as YAML, which describe --expect prints"
    )
    which.add_argument("--to-plan", metavar="FILE", help="the compiled plan of the job, of SQL")
    which.add_argument(
        "--job",
        metavar="FILE",
        help="a job graph, from /jobs/<id> of Flink's REST API or getExecutionPlan(), to compare parallelism",
    )
    job.add_argument(
        "--from-plan",
        metavar="FILE",
        help="the plan of the job that wrote the snapshot, to compare what both compute and not only types",
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


CHECK = CommandDefinition(
    "check",
    "answer whether a snapshot restores in a job, with the right values",
    _check_arguments,
    (
        "stateproc check /savepoints/savepoint-4f1b --flink-version 2.3",
        "stateproc check /savepoints/savepoint-4f1b --like /tmp/savepoint-of-the-new-job",
        "stateproc check /savepoints/savepoint-4f1b --expect states.yaml",
        "stateproc check /savepoints/savepoint-4f1b --from-plan old.json --to-plan new.json",
    ),
)


def _classes_arguments(parser: ArgumentParser) -> None:
    add_open_options(parser)
    parser.add_argument("--uid", action="append", default=[], help="only this operator (uid, hash or name); repeatable")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--skeleton", action="store_true", help="print the classes to describe as JSON for --classes")
    output.add_argument("--json", action="store_true", help="print everything as JSON")


CLASSES = CommandDefinition(
    "classes",
    "list the user classes that a snapshot mentions, and which need a description",
    _classes_arguments,
    (
        "stateproc classes /savepoints/savepoint-4f1b",
        "stateproc classes /savepoints/savepoint-4f1b --skeleton > classes.json",
    ),
)


def _demo_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--path", action="store_true", help="print the path of the snapshot only, for other commands")
    parser.add_argument("--json", action="store_true", help="print one JSON object: commands, outputs, exit statuses")


DEMO = CommandDefinition("demo", "run the commands on a small snapshot that comes with the package", _demo_arguments)


def _notebook_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="where to; made if it does not exist")
    parser.add_argument("--overwrite", action="store_true", help="replace notebooks that exist in DIR")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


NOTEBOOK = CommandDefinition(
    "notebook",
    "copy notebooks for snapshots of your own, and snapshots to try them on, into a folder",
    _notebook_arguments,
    ("stateproc notebook look", "stateproc notebook look --overwrite"),
)


SHELLS = ("bash", "zsh", "fish")


def _completion_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="for which shell")


COMPLETION = CommandDefinition(
    "completion",
    "print what makes a shell complete commands, options, uids and states",
    _completion_arguments,
    ('eval "$(stateproc completion bash)"', "stateproc completion fish | source"),
)


def _warmup_arguments(parser: ArgumentParser) -> None:
    pass


WARMUP = CommandDefinition(
    "warmup",
    "compile the kernels ahead of the first read, where there is no library of compiled ones",
    _warmup_arguments,
)
