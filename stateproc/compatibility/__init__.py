"""Answer whether a snapshot restores in a job, with the right values, and what to do where it does not.

`check_snapshot` compares what a snapshot declares with what a job declares: the same job on another release, or a
snapshot of the new job. Rules of serializers are beside the serializers (`stateproc/serializers/compatibility.py`).
May import: model and what is above it.
"""
