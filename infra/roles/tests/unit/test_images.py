"""Images of the roles have what their scripts name, as far as can be told without building them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
FOLDERS = [
    path.parent
    for pattern in ("infra/roles/*/Dockerfile", "experiments/designs/*/roles/*/Dockerfile")
    for path in sorted(ROOT.glob(pattern))
    if (path.parent / "role.json").exists()
]
NAMED = re.compile(r"/opt/sparecraft/role/([\w.-]+)")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_an_image_has_every_file_that_the_role_s_scripts_name(folder: Path) -> None:
    lines = (folder / "Dockerfile").read_text().splitlines()
    copied = re.findall(r"[\w.-]+", "\n".join(line for line in lines if line.startswith("COPY")))
    named = {name for path in folder.glob("*.sh") for name in NAMED.findall(path.read_text())}
    assert named - set(copied) == set()
    assert {"start.sh", "ready.sh"} <= set(copied)
