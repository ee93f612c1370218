"""Fits models to measured results and plans the cheapest fleet that meets the SLOs."""
