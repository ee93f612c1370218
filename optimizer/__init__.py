"""Models that are fitted to measured results, and plans of the cheapest fleet for the SLOs."""
