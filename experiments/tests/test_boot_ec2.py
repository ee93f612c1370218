"""What an instance installs at its first boot and what an image build does are one list."""

from __future__ import annotations

import re
from pathlib import Path

from experiments.paths import ROOT


def _packages(script: Path) -> set[str]:
    (found,) = re.findall(r"^packages=\((.*)\)$", script.read_text(), re.MULTILINE)
    return set(found.split())


def test_an_instance_has_the_packages_of_every_image() -> None:
    of_images = _packages(ROOT / "ci" / "base-image")
    assert _packages(ROOT / "infra" / "boot" / "boot.sh") == of_images | {"python3-boto3"}
