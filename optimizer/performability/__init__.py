"""Users' view of a year of faults: measured stages, weighted by how often and how long."""

from optimizer.performability.year import Fault, Level, Stage, Year, expected_year

__all__ = ["Fault", "Level", "Stage", "Year", "expected_year"]
