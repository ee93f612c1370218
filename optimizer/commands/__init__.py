"""The planner's part of `sparecraft`: one module a command, which `experiments.cli` imports.

Each module says what it takes and prints, and leaves all thinking to the library.
"""
