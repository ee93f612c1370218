"""Users' view of a year of faults: measured stages, weighted by rate and duration."""

from optimizer.performability.year import Fault, Level, Stage, Year, expected_year

__all__ = ["Fault", "Level", "Stage", "Year", "expected_year"]
