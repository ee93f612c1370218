"""The testbed of an experiment: platforms, agents, faults, schemes; up, ready, disturb, down."""
