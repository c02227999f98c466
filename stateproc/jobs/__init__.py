"""Run declarative jobs: sources and a base snapshot → changes and new operators → a checked, reported savepoint.

A job file is parsed (``job_document``), resolved (``variables``), validated (``validation``), planned and
applied (``job_run``). May import the writers and everything that they import; the command line runs jobs.
"""
