"""A run as it goes on, or as it was: what Grafana's dashboard asks, in a terminal and as a page.

Begin with snapshot.py.
"""
