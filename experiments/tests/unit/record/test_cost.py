"""Cost of a planned fleet: from a plan's JSON to the hour, and to the most that it can cost."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from core.errors import InputError
from core.units import HOURS_PER_MONTH
from experiments.testbed.platforms.ec2.cost import (
    USD_PER_ADDRESS_HOUR,
    USD_PER_GB_MONTH,
    Bill,
    Quote,
    RentedMachine,
    planned_machines,
    quote_of,
)
from experiments.testbed.platforms.ec2.cost_estimate import check_limits
from optimizer.tests.pricing_api import PricingApi, product, serving

TODAY = date(2026, 2, 3)


def _instance(name: str, standby: str = "false") -> dict[str, Any]:
    return {
        "address": f'aws_instance.this["{name}"]',
        "type": "aws_instance",
        "index": name,
        "values": {
            "instance_type": "t3.small",
            "root_block_device": [{"volume_size": 10, "encrypted": True}],
            "tags_all": {"sparecraft:machine": name, "sparecraft:standby": standby},
        },
    }


def _group(name: str, size: int = 1) -> list[dict[str, Any]]:
    template = {
        "address": f'aws_launch_template.this["{name}"]',
        "type": "aws_launch_template",
        "index": name,
        "values": {"instance_type": "t3.micro",
                   "block_device_mappings": [{"ebs": [{"volume_size": 12}]}],
                   "tags_all": {"sparecraft:machine": name}},
    }  # fmt: skip
    group = {"address": f'aws_autoscaling_group.this["{name}"]', "type": "aws_autoscaling_group",
             "index": name, "values": {"max_size": size, "desired_capacity": size}}  # fmt: skip
    return [template, group]


def _plan(*resources: dict[str, Any], below: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    module = {"resources": list(resources), "child_modules": [{"resources": below or []}]}
    return {"planned_values": {"root_module": module}}


def test_instances_and_the_machines_of_groups_are_found_in_every_module() -> None:
    plan = _plan(_instance("db-1"), _instance("db-2", "true"), below=_group("web-1", 2))
    assert planned_machines(plan) == (RentedMachine("db-1", "t3.small", False, 10.0),
                                      RentedMachine("db-2", "t3.small", True, 10.0),
                                      RentedMachine("web-1", "t3.micro", False, 12.0),
                                      RentedMachine("web-1", "t3.micro", False, 12.0))  # fmt: skip


def test_an_instance_without_a_type_is_refused_not_priced_at_nothing() -> None:
    machine = _instance("db-1")
    del machine["values"]["instance_type"]
    with pytest.raises(InputError, match="aws_instance"):
        planned_machines(_plan(machine))


def test_the_hour_leaves_standbys_off_and_the_most_has_them_on_until_the_end() -> None:
    machines = (RentedMachine("db-1", "a", False, 10.0), RentedMachine("db-2", "a", True, 10.0))
    bill = Bill(machines, Quote({"a": 0.02}, "2026-02-03", "a test"), 5.0)
    standing_usd = 20.0 * USD_PER_GB_MONTH / HOURS_PER_MONTH + 2 * USD_PER_ADDRESS_HOUR
    assert bill.usd_per_hour == pytest.approx(0.02 + standing_usd)
    assert bill.usd_most == pytest.approx(5 * (2 * 0.02 + standing_usd))


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Set credentials, allow one attempt, and point to a port where nobody listens."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return monkeypatch


def test_today_s_prices_are_asked_for_type_by_type(credentials: pytest.MonkeyPatch) -> None:
    api = PricingApi({"us-east-1": [product("t3.small", "0.0211"), product("m5.large", "0.1")]})
    with serving(api) as url:
        credentials.setenv("AWS_ENDPOINT_URL_PRICING", url)
        quote, remark = quote_of("us-east-1", {"t3.small"}, "ec2", TODAY)
    assert quote.usd_per_hour == {"t3.small": 0.0211}
    assert (quote.as_of, remark) == ("2026-02-03", "")
    filters = {row["Field"]: row["Value"] for row in api.requests[0]["Filters"]}
    assert filters["instanceType"] == "t3.small"


@pytest.mark.usefixtures("credentials")
def test_without_the_pricing_api_the_book_answers_and_its_date_is_said() -> None:
    quote, remark = quote_of("eu-west-1", {"t3.small"}, "ec2", TODAY)
    assert quote.as_of == "2025-01-01"
    assert quote.usd_per_hour["t3.small"] > 0
    assert "pricing API gave no prices" in remark
    assert "2025-01-01" in remark


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize(("region", "kind"), [("sa-east-1", "t3.small"), ("eu-west-1", "x9.huge")])
def test_a_type_that_nobody_has_a_price_of_is_refused(region: str, kind: str) -> None:
    with pytest.raises(InputError) as caught:
        quote_of(region, {kind}, "ec2", TODAY)
    assert kind in caught.value.expected
    assert "prices refresh" in caught.value.hint


_BILL = Bill(
    (RentedMachine("web-1", "t3.small", False, 0.0),), Quote({"t3.small": 0.995}, "", ""), 4.0
)


@pytest.mark.parametrize("max_usd", [None, 4.0, 100.0])
def test_a_fleet_within_its_most_is_made(max_usd: float | None) -> None:
    check_limits(_BILL, max_usd, 3600.0)
    check_limits(_BILL, max_usd, None)


def test_a_fleet_that_could_cost_more_than_it_may_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        check_limits(_BILL, 3.99, 3600.0)
    assert caught.value.place == "--max-usd 3.99"
    assert "4.00 USD in 4 h" in caught.value.got


def test_a_fleet_that_ends_before_its_run_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        check_limits(_BILL, None, 5 * 3600.0)
    assert caught.value.place == "--ttl-hours"
