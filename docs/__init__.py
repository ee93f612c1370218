"""Documentation; `python -m docs.generate` writes docs/reference from the models and contracts."""
