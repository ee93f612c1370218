"""Stores under test: their adapters, official clients and metrics."""
