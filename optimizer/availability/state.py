"""Unavailability by a tier's data: the primary is lost, or all copies are lost.

Both are upper bounds, added to the share of the horizon without enough nodes.

  primary   writes go to one machine. It is lost at rate lambda while there is one, and another one
            takes its place after 1/mu on average while any node is up. Let D be the expected time
            of a horizon T without a primary and with a node up. A take-over begins whenever the
            primary is lost, lambda (T - D) times at most, and lasts 1/mu, so
                D <= lambda (T - D) / mu,   D / T <= q = lambda / (lambda + mu)
  copies    a machine that joins gets its data from the others. With n machines, of which down ones
            join again one at a time at rate rho, all data is lost when the last one crashes: at
            rate lambda while n - 1 are down. Let Y be the chain 0 .. n - 1 of machines that are
            down, its steady state pi. It begins at 0, so P(Y = n - 1) never exceeds pi(n - 1):
                P(lost by t) <= lambda t pi(n - 1),   on average over T: lambda T pi(n - 1) / 2
"""

from __future__ import annotations

import math

from core.errors import require_count, require_positive
from core.units import YEAR_S
from optimizer.availability.rates import HORIZON_S


def writes_lost(lost_per_year: float, takes_over_s: float) -> float:
    """Return an upper bound of the share of a horizon [-] without a primary while a node is up.

    Parameters: lost_per_year of the primary machine [1/year] > 0; takes_over_s, the mean time until
    another one takes writes [s] > 0.
    """
    rate = require_positive("lost_per_year", lost_per_year) / YEAR_S
    busy = rate * require_positive("takes_over_s", takes_over_s)
    return busy / (1.0 + busy)


def data_lost(machines: int, crash_per_year: float, joins_s: float) -> float:
    """Return an upper bound of the share of the horizon [-] after a tier lost all its data.

    Parameters: machines >= 1 with a copy; crash_per_year of each > 0; joins_s, the mean time until
    a lost machine is back with a copy [s] > 0, one at a time.
    """
    require_count("machines", machines, least=1)
    rate = require_positive("crash_per_year", crash_per_year) / YEAR_S
    step = math.log(rate * require_positive("joins_s", joins_s))
    logs = [0.0]
    for down in range(machines - 1):
        logs.append(logs[-1] + math.log(machines - down) + step)
    top = max(logs)
    last = math.exp(logs[-1] - top) / math.fsum(math.exp(log - top) for log in logs)
    return min(1.0, rate * HORIZON_S * last / 2.0)
