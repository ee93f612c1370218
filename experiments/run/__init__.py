"""A run: its lifecycle, blocks of load, active faults, the contract of a kind."""
