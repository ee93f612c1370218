"""The commands of `sparecraft` about designs, fleets and runs, one module each.

`experiments.cli` imports a module when its command is called.
"""
