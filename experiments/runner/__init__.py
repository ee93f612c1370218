"""Carries out an experiment: up, arms in their order, faults, collection, verdicts, down.

Read `run.py` first; `block.py` is one block of it, `fleet.py` the way to a fleet that answers.
Nothing is imported here, so that `sparecraft --help` does not load the numeric libraries.
"""
