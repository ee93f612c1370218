"""The removal of a fleet that Terraform cannot plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from core.errors import EnvironmentMissing
from experiments.testbed.platforms.terraform import Progress, Stack


class RangeTaken(Stack):
    """A stack whose network is gone, and whose provider refuses to plan it anew: another fleet has
    its range."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, "shop")
        self.calls: list[list[str]] = []
        (directory / "main.tf").write_text("")
        self.state_directory.mkdir(parents=True)
        (self.state_directory / "fleet.tfvars").write_text('experiment = "shop"')
        (self.state_directory / "terraform.tfstate").write_text('{"resources": []}')

    def _init(self) -> None:
        pass

    def _stream(self, arguments: Sequence[str], progress: Progress) -> None:
        self.calls.append(list(arguments))
        progress("destroying")
        if "-refresh=false" not in arguments:
            raise EnvironmentMissing("terraform destroy", expected="a free range", got="taken")

    def _delete_workspace(self) -> None:
        pass


def test_a_fleet_that_is_gone_and_whose_range_another_has_is_forgotten(tmp_path: Path) -> None:
    stack = RangeTaken(tmp_path)
    assert stack.remove(lambda _said: None, lambda: ["network sc-shop-data"]) == [
        "network sc-shop-data"
    ]
    assert len(stack.calls) == 2
    assert not stack.state_directory.exists()
