"""The report of a run: report.html, and the summary on a terminal. Begin with page.py."""

from __future__ import annotations

from experiments.report.page import write_report
from experiments.report.terminal import print_summary

__all__ = ["print_summary", "write_report"]
