"""Benchmarks beside peers, in the same run. Read README.md first."""
