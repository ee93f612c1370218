"""Experiments on a fleet: specification, load, faults, records, metrics, report, CLI."""
