"""What an experiment runs on: platforms, agents, faults, schemes; up, ready, disturb, down."""
