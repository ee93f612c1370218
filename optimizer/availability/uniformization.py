r"""Expected rewards by uniformization: rigorous, and cheap if nothing in the chain is fast.

With Lambda at least the largest rate out of a state and P = I + Q / Lambda,

    \int_0^1 p(t) dt = 1 / Lambda  sum_k P(N > k) P^k p(0),      N ~ Poisson(Lambda),

a sum of positive terms: it is cut where the rest is below TAIL, and rounding stays below one unit
in the last place per step. A horizon holds Lambda steps, which is why a fail-over of 15 s in a year
(two million) is left to `transient`'s contour.  Source: Grassmann 1977; Stewart 1994, section 8.4.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from core.arrays import Floats

TAIL = 1e-14
STEPS_MAX = 100_000


def steps(generator: Any) -> int:
    """Return the number of steps of a horizon, for a generator (n, n) sparse [1/horizon]."""
    top = float(np.abs(generator.diagonal()).max())
    return math.ceil(top + 8.0 * math.sqrt(top) + 30.0)


def mean_law(generator: Any, exits: Any, start: int) -> tuple[Floats, Floats, float]:
    r"""\int_0^1 p dt (n,), \int_0^1 absorbed dt (e,), and the error of any sum of them.

    Parameters: as in `transient.Flow`.
    """
    from scipy.sparse import block_array, csr_array, eye_array
    from scipy.special import pdtrc

    n, classes = generator.shape[0], exits.shape[0]
    top = 1.01 * float(np.abs(generator.diagonal()).max()) + 1e-9
    flows = block_array([[generator, None], [exits, csr_array((classes, classes))]])
    move = csr_array(eye_array(n + classes) + flows / top)
    count = steps(generator * 1.01)
    later = pdtrc(np.arange(count), top)  # P(N > k)
    law = np.zeros(n + classes)
    law[start] = 1.0
    mean = np.zeros_like(law)
    for weight in later:
        mean += weight * law
        law = move @ law
    mean /= top
    missed = abs(1.0 - float(mean.sum()))
    return mean[:n], mean[n:], missed + TAIL + count * 2.0**-52
