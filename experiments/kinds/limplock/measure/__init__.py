"""Measurement of rows on a fleet."""
