"""The price book, and what it refuses."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from optimizer.errors import InputError
from optimizer.prices import load_prices

GOOD = """
as_of = "2025-01-01"
source = "a list"
currency = "USD"
[instances]
"a.small" = { vcpus = 2, memory_gb = 4.0 }
[usd_per_hour.here]
"a.small" = 0.1
"""


def test_the_book_in_the_project_is_dated_sourced_and_covers_both_regions() -> None:
    book = load_prices()
    assert datetime.date.fromisoformat(book.as_of).year >= 2024
    assert "AWS" in book.source
    names = {region: {i.name for i in book.instances(region)} for region in book.regions}
    assert {"us-east-1", "eu-west-1"} <= set(names)
    assert names["us-east-1"] == names["eu-west-1"]


def test_a_family_costs_in_proportion_to_its_vcpus() -> None:
    """EC2 prices of one family double with the size, which a typing slip would break."""
    for region in ("us-east-1", "eu-west-1"):
        by_name = {i.name: i for i in load_prices().instances(region)}
        for family in ("m5", "m6i", "c5", "c6i", "r6i"):
            ratios = {
                round(i.usd_per_hour / i.vcpus, 6)
                for name, i in by_name.items()
                if name.startswith(family + ".")
            }
            assert len(ratios) == 1, (region, family, ratios)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('"2025-01-01"', '"yesterday"', "as_of"),
        ("0.1", "-0.1", "usd_per_hour.here.a.small"),
        ("0.1", '"free"', "usd_per_hour.here.a.small"),
        ('"a.small" = 0.1', "", "usd_per_hour.here"),
        ('"a.small" = 0.1', '"b.small" = 0.1', "b.small"),
        ("vcpus = 2", "vcpus = 0", "instances.a.small.vcpus"),
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


def test_an_unknown_region_and_a_missing_book_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="eu-west-1"):
        load_prices().instances("mars-1")
    with pytest.raises(InputError, match="price book"):
        load_prices(tmp_path / "none.toml")
