"""Nights: a suite of designs that are run one after the other, their history, and their site.

Read night.py first. A run is a child process (`sparecraft run`), and only its files in `results/`
are used here.
"""
