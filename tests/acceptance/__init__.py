"""Tests that take minutes: `make test-acceptance` runs them, not `make test`."""
