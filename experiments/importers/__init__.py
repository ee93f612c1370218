"""Designs from a user's existing files: one module or folder per importer."""
