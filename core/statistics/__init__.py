"""Statistics with one rule for the whole project: percentiles."""
