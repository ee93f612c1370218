"""The planner's commands of `sparecraft`: one module per command, which `experiments.cli` imports.

Each module has the options and the output; the library does the computation.
"""
