"""The load workers in Python, one package each, started by `python -m`. README.md has the contract."""
