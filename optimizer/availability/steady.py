"""The long run: the share of time with enough nodes, independent of the start."""

from __future__ import annotations

import numpy as np

from core.arrays import Floats
from core.tolerances import U_EDGE
from core.vocabulary import Mechanism, Scheme
from optimizer.availability.chain import Chain, build
from optimizer.availability.models import check, depths, shape_of, share
from optimizer.availability.rates import HORIZON_S, FailureRates


def steady_state(
    needed: int, extra: int, rates: FailureRates, *, mechanism: str, scheme: str
) -> float | None:
    r"""Return the long-run share of time [-] with at least `needed` nodes' capacity up.

    Parameters: as in `availability`; mechanism ara (extra = active nodes) or pf (extra = pool;
    unused in the cloud).
    Returns: float in [0, 1], or None if the only steady state is the end of the fleet (on-premises
    without repair).  The chain is cut where it spends less than 1e-14 of the time.
    Source: PCRAFT Fig. 1.
    """
    check(needed, extra, scheme, HORIZON_S)
    if scheme == Scheme.on_prem and rates.repair_s is None:
        return None
    if mechanism == Mechanism.pf and scheme == Scheme.on_prem and extra == 0:
        return 0.0  # nothing to fail over to, ever
    shape = shape_of(needed, extra, mechanism, scheme)
    to_lose = extra if mechanism == Mechanism.ara else 0
    for cut in depths(shape, rates, least=to_lose):
        chain = build(cut, rates, HORIZON_S, reflect=True)
        law = stationary(chain)
        edge = (chain.down == cut.down_max) & (cut.down_max < shape.slots)
        if rates.limps:
            edge |= (chain.limping == cut.limping_max) & (cut.limping_max < shape.slots)
        if float(law[edge].sum()) < U_EDGE:
            break
    enough = chain.shortfall(rates.limp_capacity) <= to_lose
    return share(float(law[enough].sum()))


def stationary(chain: Chain) -> Floats:
    """Return pi (n,) with Q pi = 0 and sum 1, by inverse iteration."""
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import splu

    shift = 1e-9 * float(np.abs(chain.generator.diagonal()).max())
    factor = splu((shift * eye_array(chain.states, format="csc") - chain.generator).tocsc())
    law = np.full(chain.states, 1.0 / chain.states)
    for _ in range(200):
        before = law
        law = np.clip(factor.solve(law), 0.0, None)
        law /= law.sum()
        if float(np.abs(law - before).sum()) < 1e-15:
            break
    return law
