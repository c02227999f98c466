"""Tests of stateproc. Each test module belongs to one package of the project; what they share is in `tests.helpers`."""
