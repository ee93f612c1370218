"""Figures of three papers, computed again: PCRAFT's Tables II and III and Fig. 5 to 7, sPARE's
Eq. 1 to 3, the limplock paper's Table 2 and Fig. 3. `data/performability.json` is of a fourth, held
against measurements (`kind = "performability"`), not models.

Read `published.py` first (the data and what a claim is), then `tables.py` and `ranges.py` (PCRAFT),
`replicas.py` (sPARE), `limplock.py`; `draw_*.py` are the figures, `show*.py` the terminal.
"""
