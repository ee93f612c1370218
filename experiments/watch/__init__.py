"""A current or finished run: the queries of Grafana's dashboard, in a terminal and as a page.

Begin with snapshot.py.
"""
