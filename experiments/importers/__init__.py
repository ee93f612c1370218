"""From what a user has already to a design: one module or folder an importer."""
