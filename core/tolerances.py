"""All tolerances, each with its unit and the reason for its size.

Below `U_FLOOR` the availability models cannot distinguish fleets: none is said to be better, and no
target is accepted that is nearer to one. A fleet keeps a target if its unavailability plus the
error bound of that figure does (`Availability.unavailability_most`). So no tolerance decides if a
plan is feasible; those of the search only admit candidates that are checked again.
"""

from __future__ import annotations

# Unavailability, as shares of the horizon: the availability models.
U_FLOOR = 1e-12  # ten times the error bound of the usual chain
U_ERROR_MAX = 1e-9  # a figure with a wider error bound is refused
U_BRACKET = 1e-10  # between all down past a chain's cut and nothing past it; else cut deeper
U_PAST_CUT = 1e-12  # time past the cut that is accepted, and counted as error
U_HALVING = 1e-10  # a larger difference between a substep and its half is not accepted
U_EDGE = 1e-14  # probability at the cut of a long run below which it does not matter
CAPACITY = 1e-9  # of a node: 0.25 limping four times is one node

# Costs, in USD a month.
CENT = 0.005  # costs that differ by less are equal, because they are shown with two digits
USD_ROUNDING = 1e-6  # of sums of prices
USD_LESS = 1e-9  # a step of a search that saves less is ignored
USD_RELATIVE = 1e-12  # rounding of sums beside large ceilings and prices, relative

# Limits.
LOG_ROUNDING = 1e-9  # relative, of sums of logarithms; admitted values are checked exactly later
LIMIT_STEP = 1e-9  # relative: the next tighter limit that is distinguished
LIMIT_INSIDE = 1e-12  # relative: the distance inside of a bound, so that the bound is kept
SLOWER = 1.0 + 1e-6  # factor of a percentile [ms]: rounding of its law
GAP_LEAST = 1e-12  # of a plan that is not proved: never shown as proved
NO_BOUND = 0.9995  # a gap that would be shown as 100 %: the search has no lower bound of the cost
PROBABILITY_ROUNDING = 1e-9  # relative, of sums of probabilities that count as equal
GRID_ROUNDING = 1e-9  # of a cell, before effects are rounded up to whole ones
GRID_LEAST = 1e-12  # the least cell of such a grid
U_STEP = 1e-11  # of an unavailability, likewise: above the numerical error of the models
