"""Nights: a suite of designs run one after the other, their history, and the site made of it.

Begin with night.py. A run is a child process of its own (`sparecraft run`), and what it leaves in
`results/` is all that is known of it here.
"""
