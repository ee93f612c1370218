"""Images of a real engine: listed while nothing uses them, and removed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from experiments.testbed.platforms.local import docker, images

NAME = "sparecraft/tst-prune:local"


@pytest.fixture
def image() -> Iterator[str]:
    """The name of an image of ours without content."""
    subprocess.run(
        ["docker", "build", "--quiet", "--tag", NAME, "--label", f"sparecraft.tag={NAME}", "-"],
        input="FROM scratch\nCMD [\"/none\"]\n", text=True, capture_output=True, check=True,
    )  # fmt: skip
    yield NAME
    subprocess.run(["docker", "rm", "--force", "tst-prune"], capture_output=True, check=False)
    subprocess.run(["docker", "image", "rm", "--force", NAME], capture_output=True, check=False)


def _unused(name: str) -> list[images.Image]:
    return [unused for unused in images.find_unused() if unused.name == name]


def test_an_image_is_unused_until_a_container_has_it_and_goes_when_removed(image: str) -> None:
    assert len(_unused(image)) == 1
    docker.run("create", "--name", "tst-prune", image)
    assert _unused(image) == []
    docker.run("rm", "tst-prune")
    images.remove(_unused(image)[0])
    assert _unused(image) == []
    assert docker.run("image", "ls", "--quiet", image) == ""
