"""Figures of three papers, computed again: PCRAFT's Tables II and III and Fig. 5 to 7, sPARE's
Eq. 1 to 3, the limplock paper's Table 2 and Fig. 3. `data/performability.json` is from a fourth
paper; it is compared with measurements (`kind = "performability"`), not with models.

Read `published.py` first (the data and the form of a claim), then `tables.py` and `ranges.py`
(PCRAFT), `replicas.py` (sPARE), `limplock.py`; `draw_*.py` make the figures, `show*.py` the
terminal's text.
"""
