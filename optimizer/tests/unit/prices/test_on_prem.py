"""Cost of owning a machine: the equations, slices, and what a book may not say."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.errors import InputError
from core.units import HOURS_PER_MONTH
from optimizer.prices import price_book
from optimizer.prices.owned import Server, Site, monthly_cost

SIZE = {"watts": 200.0, "rack_units": 2.0, "cores": 32.0, "memory_gb": 128.0}
SERVER = Server(purchase_usd=6000.0, years=5.0, source="a", as_of="2025-01-01", **SIZE)
SITE = Site(0.10, 1.5, 30.0, 60.0, 0.5)
GOOD = """
as_of = "2025-01-01"
source = "our invoices"
currency = "USD"
[shared]
usd_per_kwh = { value = 0.1, source = "a bill", as_of = "2025-01-01" }
pue = { value = 1.5, source = "assumption", as_of = "2025-01-01" }
usd_per_rack_unit_month = { value = 0, source = "our own room", as_of = "2025-01-01" }
staff_usd_per_hour = { value = 60, source = "assumption", as_of = "2025-01-01" }
staff_hours_per_server_month = { value = 0.5, source = "assumption", as_of = "2025-01-01" }
[servers.big]
purchase_usd = 6000
years = 5
watts = 200
rack_units = 2
cores = 32
memory_gb = 128
source = "an invoice"
as_of = "2025-01-01"
[slices]
thin = { server = "big", cores = 8, memory_gb = 16 }
fat = { server = "big", cores = 2, memory_gb = 64 }
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "site.toml"
    path.write_text(text)
    return path


def test_the_parts_are_those_of_the_equation() -> None:
    cost = monthly_cost(SERVER, SITE)
    assert cost.purchase == pytest.approx(6000 / 60)
    assert cost.power == pytest.approx(0.2 * 730 * 1.5 * 0.10)  # 200 W for 730 h
    assert cost.space == pytest.approx(60.0)
    assert cost.staff == pytest.approx(30.0)
    assert cost.total == pytest.approx(100 + 21.9 + 60 + 30)
    assert cost.off == pytest.approx(cost.total - 21.9)


def test_a_loan_costs_the_annuity_of_its_interest() -> None:
    """The textbook loan: 200,000 over 30 years at 6 % is 1,199.10 a month."""
    loan = SERVER.model_copy(update={"purchase_usd": 200_000.0, "years": 30.0})
    site = Site(0.1, 1.5, 30.0, 60.0, 0.5, interest=0.06)
    assert monthly_cost(loan, site).purchase == pytest.approx(1199.10, abs=0.005)


@given(st.just(0.0) | st.floats(1e-300, 0.3), st.floats(1.0, 10.0))
@example(4.196251814556539e-09, 1.0)  # 1 - (1 + m)^-n had lost seven digits here
def test_interest_never_makes_a_purchase_cheaper(interest: float, years: float) -> None:
    server = SERVER.model_copy(update={"years": years})
    site = Site(0.1, 1.5, 30.0, 60.0, 0.5, interest)
    free = monthly_cost(server, SITE).purchase
    paid = monthly_cost(server, site).purchase
    assert free * (1 - 1e-14) <= paid <= (free + 6000 * interest / 12) * (1 + 1e-14)


def test_a_slice_costs_its_share_of_the_scarcer_resource(tmp_path: Path) -> None:
    book = price_book(written(tmp_path, GOOD))
    big, thin, fat = (book.costs[name] for name in ("big", "thin", "fat"))
    assert thin.total == pytest.approx(big.total * 8 / 32)
    assert fat.total == pytest.approx(big.total * 64 / 128)
    assert fat.power == pytest.approx(big.power / 2)
    found = book.instance("on-prem", "thin")
    assert found.usd_per_month == pytest.approx(thin.total)
    assert found.usd_per_month_off == pytest.approx(thin.total - thin.power)
    assert (found.vcpus, found.memory_gb, found.baseline_share) == (8.0, 16.0, 1.0)
    assert [i.name for i in book.instances("on-prem")] == ["thin", "fat", "big"]


def test_slices_that_fill_a_server_cost_what_the_server_costs() -> None:
    book = price_book("on-prem")
    whole = book.instance("on-prem", "server-32")
    for name, count in (("slice-4", 8), ("slice-8", 4), ("slice-16", 2)):
        part = book.instance("on-prem", name)
        assert count * part.vcpus == whole.vcpus
        assert count * part.usd_per_month == pytest.approx(whole.usd_per_month)


def test_the_book_in_the_project_has_one_region_small_slices_and_honest_sources() -> None:
    book = price_book("on-prem")
    assert set(book.regions) == {"on-prem"}
    sizes = {i.vcpus for i in book.instances("on-prem")}
    assert {0.25, 0.4, 0.5, 1.0, 2.0, 4.0} <= sizes
    assert "assumption" in book.source
    for one in book.instances("on-prem"):
        cost = book.costs[one.name]
        assert one.usd_per_month_off is not None
        assert 0 < one.usd_per_month_off < one.usd_per_month
        assert cost.total == pytest.approx(one.usd_per_hour * HOURS_PER_MONTH)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("purchase_usd = 6000", "purchase_usd = -1", "servers.big.purchase_usd"),
        ("purchase_usd = 6000", "", "servers.big.purchase_usd"),
        ("years = 5", "years = 0", "servers.big.years"),
        ("watts = 200", "watts = nan", "servers.big.watts"),
        ("rack_units = 2", "rack_units = inf", "servers.big.rack_units"),
        ("cores = 32", 'cores = "32"', "servers.big.cores"),
        ("cores = 32", "cores = 32\ngpus = 2", "servers.big.gpus"),
        ('source = "an invoice"', "", "servers.big.source"),
        ("value = 1.5", "value = 0.5", "shared.pue"),
        ("value = 0.1", "valeu = 0.1", "shared.usd_per_kwh.valeu"),
        ("value = 0.1,", "", "shared.usd_per_kwh.value"),
        ('source = "a bill"', 'source = ""', "shared.usd_per_kwh.source"),
        ("pue =", "puh =", "shared.puh"),
        ('pue = { value = 1.5, source = "assumption", as_of = "2025-01-01" }', "", "shared.pue"),
        ('thin = { server = "big"', 'thin = { server = "bgi"', "slices.thin.server.*mean big"),
        ("cores = 8", "cores = 64", "slices.thin.cores"),
        ("memory_gb = 64 }", "memory_gb = 640 }", "slices.fat.memory_gb"),
        ("thin =", "big =", "slices.big"),
        ("fat =", "thin =", 'thin = { server = "big", cores = 2'),
        ('"USD"', '"EUR"', "currency"),
        ("[slices]", "[instances]", "instances"),
    ],
)
def test_a_damaged_book_is_refused_by_name(tmp_path: Path, old: str, new: str, named: str) -> None:
    assert price_book(written(tmp_path, GOOD)).instances("on-prem")
    assert old in GOOD
    with pytest.raises(InputError, match=named):
        price_book(written(tmp_path, GOOD.replace(old, new, 1)))
