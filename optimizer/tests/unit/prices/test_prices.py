"""The price book, and what it refuses."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from core.errors import InputError
from optimizer.prices import load_prices, price_book

GOOD = """
as_of = "2025-01-01"
source = "a list"
currency = "USD"
[instances]
"a.small" = { vcpus = 2, memory_gb = 4.0 }
[usd_per_hour.here]
"a.small" = 0.1
"""


def test_the_book_in_the_project_is_dated_sourced_and_covers_two_regions() -> None:
    book = load_prices()
    assert datetime.date.fromisoformat(book.as_of).year >= 2024
    assert "AWS" in book.source
    assert "by hand" in book.source
    names = {region: {i.name for i in book.instances(region)} for region in book.regions}
    assert set(names) == {"us-east-1", "eu-west-1"}
    assert len(names["us-east-1"]) >= 60
    assert len(names["eu-west-1"]) >= 40
    assert names["eu-west-1"] <= names["us-east-1"]
    assert price_book("ec2") == book


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1"])
def test_a_family_costs_in_proportion_to_its_vcpus_and_has_one_memory_ratio(region: str) -> None:
    """EC2 prices of one family double with the size, which a typing slip would break."""
    families: dict[str, set[tuple[float, float]]] = {}
    for one in load_prices().instances(region):
        family = one.name.split(".")[0]
        if family not in ("t3", "t3a"):  # sizes up to medium share two vCPUs
            ratio = (round(one.usd_per_hour / one.vcpus, 6), one.memory_gb / one.vcpus)
            families.setdefault(family, set()).add(ratio)
    assert {family: len(found) for family, found in families.items()} == dict.fromkeys(families, 1)
    assert len(families) >= 7


@pytest.mark.parametrize("family", ["t3", "t3a"])
def test_a_burstable_familys_price_doubles_from_size_to_size(family: str) -> None:
    sizes = ("nano", "micro", "small", "medium", "large", "xlarge", "2xlarge")
    prices = [load_prices().instance("us-east-1", f"{family}.{s}").usd_per_hour for s in sizes]
    assert prices == pytest.approx([prices[0] * 2**k for k in range(7)])


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('"2025-01-01"', '"yesterday"', "as_of"),
        ("0.1", "-0.1", "usd_per_hour.here.a.small"),
        ("0.1", '"free"', "usd_per_hour.here.a.small"),
        ('"a.small" = 0.1', "", "usd_per_hour.here"),
        ('"a.small" = 0.1', '"a.smal" = 0.1', "usd_per_hour.here.a.smal.*Did you mean a.small"),
        ('"a.small" = 0.1', '"a.small" = 0.1\n"a.small" = 0.2', '"a.small" = 0.2'),
        ("0.1", "nan", "usd_per_hour.here.a.small"),
        ("0.1", "inf", "usd_per_hour.here.a.small"),
        ("0.1", "true", "usd_per_hour.here.a.small"),
        ("vcpus = 2", "vcpus = 0", "instances.a.small.vcpus"),
        ("vcpus = 2", 'vcpus = "2"', "instances.a.small.vcpus"),
        ("memory_gb = 4.0", "memory_gb = -4.0", "instances.a.small.memory_gb"),
        ("memory_gb = 4.0", "memory_gb = 4.0, baseline_share = 1.5", "baseline_share"),
        ("memory_gb = 4.0", "memory_gb = 4.0, usd_per_month_off = -1", "usd_per_month_off"),
        ('source = "a list"', 'source = " "', "source"),
        ('source = "a list"', 'sorce = "a list"', "sorce"),
        ("memory_gb = 4.0", "memory_gb = 4.0, gpus = 1", "gpus"),
        ('"USD"', '"EUR"', "currency"),
        ("[instances]", "[instances", "TOML"),
    ],
)
def test_a_damaged_book_is_refused_by_name(tmp_path: Path, old: str, new: str, named: str) -> None:
    path = tmp_path / "book.toml"
    path.write_text(GOOD)
    assert load_prices(path).instances("here")[0].usd_per_month == pytest.approx(73.0)
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(InputError, match=named):
        load_prices(path)


@pytest.mark.parametrize("text", ["", 'as_of = "2025-01-01"', "[instances]"])
def test_an_empty_book_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "book.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"book\.toml"):
        price_book(path)


def test_a_fraction_of_a_core_and_the_cost_of_a_stopped_machine_are_read(tmp_path: Path) -> None:
    path = tmp_path / "book.toml"
    path.write_text(GOOD.replace("vcpus = 2", "vcpus = 0.5, usd_per_month_off = 3"))
    found = price_book(str(path)).instance("here", "a.small")
    assert (found.vcpus, found.usd_per_month_off) == (0.5, 3.0)
    assert load_prices().instance("us-east-1", "m5.large").usd_per_month_off is None


def test_an_unknown_region_and_a_missing_book_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="eu-west-1"):
        load_prices().instances("mars-1")
    with pytest.raises(InputError, match="price book"):
        load_prices(tmp_path / "none.toml")


def test_an_unknown_type_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match=r"Did you mean m6i\.large\?"):
        load_prices().instance("us-east-1", "m6i.lrage")
    with pytest.raises(InputError, match="Did you mean us-east-1"):
        load_prices().instances("us-east1")
