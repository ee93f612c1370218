"""Designs with `[[load.operations]]`, as text that tests change."""

from __future__ import annotations

from pathlib import Path

from experiments.design import Design, load_design
from experiments.tests.spec_fixture import TOML, write

LOG_IN = """\
[[load.operations]]
name = "log in"
method = "POST"
path = "/login"
body = { json = { user = "${user}" } }
take = { token = { json_path = "token" } }
"""
BUY = """\
[[load.operations]]
name = "buy"
method = "POST"
path = "/cart"
headers = { Authorization = "Bearer ${token}" }
body = { form = { item = "7" } }
expect = [201, "3xx", "404-410"]
"""
PAGE = """\
[[load.operations]]
name = "page"
path = "/"
"""
SESSION = """\
[[load.sessions]]
name = "shopper"
steps = [{ operation = "log in" }, { operation = "buy", think_s = [1.0, 2.0] }]
"""
USERS = 'parameters = "users.csv"\n'


def toml(*tables: str, keys: str = "") -> str:
    """The design of spec_fixture, asked these in place of its user."""
    asked = TOML.replace('user = "wiki-reader"\n', keys)
    return asked.replace("[phases]", "\n".join([*tables, "[phases]"]), 1)


def read(directory: Path, *tables: str, keys: str = "", csv: str = "user\nann\nbob\n") -> Design:
    write(directory, toml=toml(*tables, keys=keys))
    (directory / "users.csv").write_text(csv)
    return load_design(directory)
