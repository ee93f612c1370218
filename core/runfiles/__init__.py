"""Files of a run's results folder: one reader each."""
