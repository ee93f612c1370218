"""Metrics of a run, as pure functions over its records. Begin with summary.py."""
