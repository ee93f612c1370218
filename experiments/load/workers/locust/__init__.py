"""Locust as the engine: one process, or a master and several workers.

Read `open_loop.py` first. The runner never imports this package, because Locust patches the
standard library.
"""
