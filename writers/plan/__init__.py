"""Say what a write would do, without writing: per operator and state what happens, why, and what restoring needs.

Imports what plans a write; `SavepointWriter.plan` builds it, the command line and notebooks draw it.
"""
