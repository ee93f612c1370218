"""What every page has: the templates, the style sheet, the script that swaps drawings."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import jinja2

from experiments.report.svg import dark_rules

_HERE = Path(__file__).parent


def render_page(template: str, **values: Any) -> str:
    """A page as HTML: one file that needs no network."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = (_HERE / "report.js").read_text(encoding="utf-8")
    return environment.get_template(template).render(
        **values,
        style=(_HERE / "report.css").read_text(encoding="utf-8"),
        dark_rules=dark_rules(),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
