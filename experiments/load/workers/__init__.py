"""Load workers in Python, one package each, started by `python -m`. The contract: README.md."""
