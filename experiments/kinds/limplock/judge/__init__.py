"""Verdicts from the files of a run. No module here reads a clock."""
