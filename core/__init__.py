"""Shared by experiments and the optimizer: run files, statistics, errors, config files, units."""
