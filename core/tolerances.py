"""Tolerances, in one place: each with its unit, and why it may be that large.

Below `U_FLOOR` the availability models tell nothing apart: no fleet is said to be better, and no
target is accepted that is nearer to one. A fleet keeps a target if its unavailability and the error
bound of that figure together fit (`Availability.unavailability_most`), so no tolerance decides
whether a plan is feasible; those of the search only let candidates through that are checked again.
"""

from __future__ import annotations

# Unavailability, as shares of the horizon: the availability models.
U_FLOOR = 1e-12  # ten times the error bound of the usual chain
U_ERROR_MAX = 1e-9  # a figure with a wider error bound is refused
U_BRACKET = 1e-10  # between all down past a chain's cut and nothing past it; else cut deeper
U_PAST_CUT = 1e-12  # time past the cut that is taken as it is, and counted as error
U_HALVING = 1e-10  # a larger difference between a substep and its half is not believed
U_EDGE = 1e-14  # probability at the cut of a long run below which it does not matter
CAPACITY = 1e-9  # of a node: 0.25 limping four times is one node

# Costs, in USD a month.
CENT = 0.005  # costs that differ by less are equal: they are shown with two digits
USD_ROUNDING = 1e-6  # of sums of prices
USD_LESS = 1e-9  # a step of a search that saves no more is none
USD_RELATIVE = 1e-12  # rounding of sums beside large ceilings and prices, relative

# Limits.
LOG_ROUNDING = 1e-9  # relative, of sums of logarithms; what is let through is checked exactly later
LIMIT_STEP = 1e-9  # relative: the next tighter limit that is told apart
LIMIT_INSIDE = 1e-12  # relative: a bound itself is kept, so that far inside is asked
SLOWER = 1.0 + 1e-6  # factor of a percentile [ms]: rounding of its law
GAP_LEAST = 1e-12  # of a plan that is not proved: never shown as proved
PROBABILITY_ROUNDING = 1e-9  # relative, of sums of probabilities: what differs by less is equal
GRID_ROUNDING = 1e-9  # of a cell, before effects are rounded up to whole ones
GRID_LEAST = 1e-12  # the least cell of such a grid
U_STEP = 1e-11  # of an unavailability, likewise: above the numerical error of the models
