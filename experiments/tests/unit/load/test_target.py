"""Load goes to the own fleet: loopback, the benchmarking range, on EC2 its network."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import InputError
from experiments.load import plan


@pytest.mark.parametrize("host", ["127.0.0.1", "198.18.0.11"])
def test_the_own_fleet_s_addresses_are_allowed_anywhere(host: str) -> None:
    assert plan.entry_url(f"http://{host}/").hostname == host


def test_a_private_address_is_allowed_on_a_load_machine_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = tmp_path / "role.env"
    monkeypatch.setattr(plan, "ROLE_FILE", role)
    for content in (None, "ROLE=mariadb\n"):
        if content is not None:
            role.write_text(content)
        with pytest.raises(InputError, match=r"127\.0\.0\.0/8"):
            plan.entry_url("http://10.80.0.11/")
    role.write_text("ROLE=load\n")
    assert plan.entry_url("http://10.80.0.11/").hostname == "10.80.0.11"
    with pytest.raises(InputError, match="nowhere else"):
        plan.entry_url("http://93.184.215.14/")


def test_a_plan_for_a_target_admits_that_address_and_no_other() -> None:
    target = plan.PlanTarget("10.80.0.11", "shop.test")
    assert plan.entry_url("http://10.80.0.11:8080/", target).port == 8080
    for host in ("10.80.0.12", "127.0.0.1", "198.18.0.11", "shop.test"):
        with pytest.raises(InputError):
            plan.entry_url(f"http://{host}/", target)
    six = plan.PlanTarget("2001:db8::5", "[2001:db8::5]")
    assert plan.entry_url("http://[2001:db8::5]:8080/", six).hostname == "2001:db8::5"
    with pytest.raises(InputError):
        plan.entry_url("http://[::1]/", six)
