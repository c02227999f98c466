"""Spark finds format("savepoint") here."""
