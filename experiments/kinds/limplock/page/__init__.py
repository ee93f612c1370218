"""The page of a run, and its summary on a terminal."""
