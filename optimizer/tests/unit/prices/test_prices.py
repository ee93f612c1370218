"""Books of prices: what comes with the project, owned servers, and those read from AWS."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.errors import EnvironmentMissing, InputError
from core.units import HOURS_PER_MONTH
from optimizer.prices import load_prices, price_book
from optimizer.prices.owned import Server, Site, monthly_cost
from optimizer.prices.refresh import refresh, write_book
from optimizer.tests.command_line import invoke
from optimizer.tests.pricing_api import PricingApi, product, serving

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
    for instance in load_prices().instances(region):
        family = instance.name.split(".")[0]
        if family not in ("t3", "t3a"):  # sizes up to medium share two vCPUs
            ratio = (
                round(instance.usd_per_hour / instance.vcpus, 6),
                instance.memory_gb / instance.vcpus,
            )
            families.setdefault(family, set()).add(ratio)
    assert {family: len(ratios) for family, ratios in families.items()} == dict.fromkeys(
        families, 1
    )
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


@pytest.mark.parametrize("name", ["", "a\\nb", "${a}", "a@spot", "\\u00e9", "a/b"])
@pytest.mark.parametrize("old", ["a.small", "here"])
def test_a_name_that_fleet_tfvars_cannot_have_is_refused(
    tmp_path: Path, old: str, name: str
) -> None:
    """Names of types and regions stand in it, also in its comments."""
    path = tmp_path / "book.toml"
    path.write_text(GOOD.replace("usd_per_hour.here", 'usd_per_hour."here"').replace(old, name))
    with pytest.raises(InputError) as error:
        load_prices(path)
    assert str(path) in error.value.place


@pytest.mark.parametrize("text", ["", 'as_of = "2025-01-01"', "[instances]"])
def test_an_empty_book_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "book.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"book\.toml"):
        price_book(path)


def test_a_fraction_of_a_core_and_the_cost_of_a_stopped_machine_are_read(tmp_path: Path) -> None:
    path = tmp_path / "book.toml"
    path.write_text(GOOD.replace("vcpus = 2", "vcpus = 0.5, usd_per_month_off = 3"))
    instance = price_book(str(path)).instance("here", "a.small")
    assert (instance.vcpus, instance.usd_per_month_off) == (0.5, 3.0)
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


SIZE = {"watts": 200.0, "rack_units": 2.0, "cores": 32.0, "memory_gb": 128.0}
SERVER = Server(purchase_usd=6000.0, years=5.0, source="a", as_of="2025-01-01", **SIZE)
SITE = Site(0.10, 1.5, 30.0, 60.0, 0.5)
OWNED = """
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
    without_interest = monthly_cost(server, SITE).purchase
    with_interest = monthly_cost(server, site).purchase
    assert (
        without_interest * (1 - 1e-14)
        <= with_interest
        <= (without_interest + 6000 * interest / 12) * (1 + 1e-14)
    )


def test_a_slice_costs_its_share_of_the_scarcer_resource(tmp_path: Path) -> None:
    book = price_book(written(tmp_path, OWNED))
    big, thin, fat = (book.costs[name] for name in ("big", "thin", "fat"))
    assert thin.total == pytest.approx(big.total * 8 / 32)
    assert fat.total == pytest.approx(big.total * 64 / 128)
    assert fat.power == pytest.approx(big.power / 2)
    instance = book.instance("on-prem", "thin")
    assert instance.usd_per_month == pytest.approx(thin.total)
    assert instance.usd_per_month_off == pytest.approx(thin.total - thin.power)
    assert (instance.vcpus, instance.memory_gb, instance.baseline_share) == (8.0, 16.0, 1.0)
    assert [i.name for i in book.instances("on-prem")] == ["thin", "fat", "big"]


def test_slices_that_fill_a_server_cost_what_the_server_costs() -> None:
    book = price_book("on-prem")
    server = book.instance("on-prem", "server-32")
    for name, count in (("slice-4", 8), ("slice-8", 4), ("slice-16", 2)):
        part = book.instance("on-prem", name)
        assert count * part.vcpus == server.vcpus
        assert count * part.usd_per_month == pytest.approx(server.usd_per_month)


def test_the_book_in_the_project_has_one_region_small_slices_and_honest_sources() -> None:
    book = price_book("on-prem")
    assert set(book.regions) == {"on-prem"}
    sizes = {i.vcpus for i in book.instances("on-prem")}
    assert {0.25, 0.4, 0.5, 1.0, 2.0, 4.0} <= sizes
    assert "assumption" in book.source
    for instance in book.instances("on-prem"):
        cost = book.costs[instance.name]
        assert 0 < instance.usd_per_month_off < instance.usd_per_month
        assert cost.total == pytest.approx(instance.usd_per_hour * HOURS_PER_MONTH)


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
        ("value = 1.5", "value = 1e300", "shared.pue"),
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
def test_a_damaged_book_of_servers_is_refused_by_name(
    tmp_path: Path, old: str, new: str, named: str
) -> None:
    assert price_book(written(tmp_path, OWNED)).instances("on-prem")
    assert old in OWNED
    with pytest.raises(InputError, match=named):
        price_book(written(tmp_path, OWNED.replace(old, new, 1)))


TODAY = datetime.date(2026, 2, 3)


EAST = [product("m5.large", "0.0970000000"), product("c5.large", "0.0860000000"),
        product("x9.huge", "99.0"), product("t3.nano", "0.0053000000"),
        product("m5.xlarge", "0.1940000000")]  # fmt: skip
WEST = [product("m5.large", "0.1080000000")]
Start = Callable[[PricingApi], PricingApi]


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Point boto3 at a closed port, without credentials of this machine, with one attempt."""
    for key in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return monkeypatch


@pytest.fixture
def start(aws: pytest.MonkeyPatch) -> Iterator[Start]:
    """Yield a function that starts a pricing API and points boto3 at it, with credentials."""
    with ExitStack() as servers:

        def begin(api: PricingApi) -> PricingApi:
            aws.setenv("AWS_ENDPOINT_URL_PRICING", servers.enter_context(serving(api)))
            aws.setenv("AWS_ACCESS_KEY_ID", "test")
            aws.setenv("AWS_SECRET_ACCESS_KEY", "test")
            return api

        yield begin


def test_all_pages_are_read_and_only_the_books_types_are_taken(start: Start) -> None:
    api = start(PricingApi({"us-east-1": EAST}))
    new = refresh(load_prices(), ["us-east-1"], TODAY)
    prices = {i.name: i.usd_per_hour for i in new.book.instances("us-east-1")}
    assert prices == {"t3.nano": 0.0053, "c5.large": 0.086, "m5.large": 0.097, "m5.xlarge": 0.194}
    assert [r.get("NextToken") for r in api.requests] == [None, "2", "4"]
    assert new.book.as_of == "2026-02-03"
    assert "Price List API" in new.book.source


def test_the_question_is_linux_shared_on_demand_of_that_region(start: Start) -> None:
    api = start(PricingApi({"eu-west-1": WEST}))
    refresh(load_prices(), ["eu-west-1"], TODAY)
    (request,) = api.requests
    assert request["ServiceCode"] == "AmazonEC2"
    assert {f["Field"]: f["Value"] for f in request["Filters"]} == {
        "regionCode": "eu-west-1", "operatingSystem": "Linux", "tenancy": "Shared",
        "preInstalledSw": "NA", "capacitystatus": "Used",
    }  # fmt: skip
    assert {f["Type"] for f in request["Filters"]} == {"TERM_MATCH"}


def test_a_type_that_the_api_does_not_return_is_listed_and_not_kept(start: Start) -> None:
    start(PricingApi({"us-east-1": EAST, "eu-west-1": WEST}))
    old = load_prices()
    new = refresh(old, ["us-east-1", "eu-west-1"], TODAY)
    assert "c6i.large" in new.missing["us-east-1"]
    assert len(new.missing["us-east-1"]) == len(old.instances("us-east-1")) - 4
    assert [i.name for i in new.book.instances("eu-west-1")] == ["m5.large"]
    assert "c5.large" in new.missing["eu-west-1"]


def test_a_refreshed_book_reads_back_as_it_was(start: Start, tmp_path: Path) -> None:
    start(PricingApi({"us-east-1": EAST}))
    new = refresh(load_prices(), ["us-east-1"], TODAY).book
    path = tmp_path / "deep" / "ec2.toml"
    write_book(new, path)
    reread = load_prices(path)
    assert reread == new
    assert reread.instance("us-east-1", "t3.nano").baseline_share == 0.05
    write_book(load_prices(), path)
    assert load_prices(path) == load_prices()
    assert [p.name for p in path.parent.iterdir()] == ["ec2.toml"]


def test_a_throttled_request_is_tried_again(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    api = start(PricingApi({"eu-west-1": WEST}, refusals=["ThrottlingException"]))
    assert len(refresh(load_prices(), ["eu-west-1"], TODAY).book.instances("eu-west-1")) == 1
    assert len(api.requests) == 2


@pytest.mark.parametrize(
    "refusal", ["ThrottlingException", "ExpiredTokenException", "AccessDeniedException"]
)
def test_a_service_that_keeps_refusing_is_a_missing_environment(start: Start, refusal: str) -> None:
    start(PricingApi({"eu-west-1": WEST}, refusals=[refusal] * 9))
    with pytest.raises(EnvironmentMissing, match=refusal) as error:
        refresh(load_prices(), ["eu-west-1"], TODAY)
    assert error.value.exit_code == 3


def test_no_credentials_and_no_network_are_a_missing_environment(
    aws: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(EnvironmentMissing, match="credentials"):
        refresh(load_prices(), ["eu-west-1"], TODAY)
    aws.setenv("AWS_ACCESS_KEY_ID", "test")
    aws.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with pytest.raises(EnvironmentMissing, match="EndpointConnectionError") as error:
        refresh(load_prices(), ["eu-west-1"], TODAY)
    assert error.value.exit_code == 3


@pytest.mark.parametrize(
    ("entry", "named"),
    [(product("m5.large", "cheap"), "cheap"), (product("m5.large", "0.0000000000"), "m5.large"),
     (product("m5.large", "-1"), "m5.large"), (product("m5.large", "NaN"), "m5.large"),
     (product("m5.large", "0.1", unit="Quantity"), "m5.large"),
     (json.dumps({"product": {"attributes": {"instanceType": "m5.large"}}}), "terms"),
     (json.dumps(["m5.large"]), "a product"), ("{", "JSON"),
     (product("m5.large", "0.2", sku="OTHER"), "0.108 and 0.2")],
)  # fmt: skip
def test_an_answer_that_is_not_one_price_is_refused_and_nothing_written(
    start: Start, tmp_path: Path, entry: str, named: str
) -> None:
    start(PricingApi({"eu-west-1": [*WEST, entry]}))
    with pytest.raises(InputError, match=named):
        refresh(load_prices(), ["eu-west-1"], TODAY)
    path = tmp_path / "ec2.toml"
    result = invoke("prices", "refresh", "--region", "eu-west-1", "--output", str(path))
    assert isinstance(result.exception, InputError)
    assert list(tmp_path.iterdir()) == []


def test_a_region_without_prices_and_a_book_of_owned_servers_are_refused(start: Start) -> None:
    start(PricingApi({"us-east-1": EAST}))
    with pytest.raises(InputError, match="mars-1"):
        refresh(load_prices(), ["mars-1"], TODAY)
    with pytest.raises(InputError, match="owned"):
        refresh(price_book("on-prem"), ["on-prem"], TODAY)


def test_a_book_that_cannot_be_read_back_does_not_replace_one_that_can(tmp_path: Path) -> None:
    path = tmp_path / "ec2.toml"
    good = load_prices()
    write_book(good, path)
    with pytest.raises(InputError, match="source"):
        write_book(replace(good, source=""), path)
    assert load_prices(path) == good
    assert [p.name for p in tmp_path.iterdir()] == ["ec2.toml"]


def test_the_command_writes_a_book_and_says_what_is_missing(start: Start, tmp_path: Path) -> None:
    start(PricingApi({"us-east-1": EAST}))
    path = tmp_path / "mine.toml"
    result = invoke("prices", "refresh", "--region", "us-east-1", "--output", str(path))
    assert result.exit_code == 0, result.output
    assert "us-east-1: 4 types priced" in result.output
    assert "c6i.large" in result.output
    assert "eu-west-1" in result.output  # left out, and said
    listed = json.loads(invoke("prices", "--book", str(path), "--json").output)
    assert [row["name"] for row in listed["regions"]["us-east-1"]][:2] == ["t3.nano", "c5.large"]
    assert listed["as_of"] == datetime.datetime.now(datetime.UTC).date().isoformat()


def test_the_command_lists_both_built_in_books_as_tables_and_json() -> None:
    table = invoke("prices", "--region", "eu-west-1")
    assert table.exit_code == 0
    assert "by hand" in table.output
    rows = json.loads(invoke("prices", "list", "--json").output)["regions"]
    assert set(rows) == {"us-east-1", "eu-west-1"}
    assert "usd_per_month_of" not in rows["eu-west-1"][0]
    owned = invoke("prices", "--book", "on-prem")
    assert "purchase" in owned.output
    row = json.loads(invoke("prices", "--book", "on-prem", "--json").output)["regions"]["on-prem"][
        0
    ]
    assert sum(row["usd_per_month_of"].values()) == pytest.approx(row["usd_per_month"])
    assert isinstance(invoke("prices", "--region", "mars-1").exception, InputError)
