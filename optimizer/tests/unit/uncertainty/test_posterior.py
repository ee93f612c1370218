"""Posteriors of rates and mean times from few observations: exact values, coverage, refusals."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from core.errors import InputError
from optimizer.uncertainty import Posterior, rate_posterior, time_posterior
from optimizer.uncertainty.posterior import BootstrapMean, ExponentialMean
from random_tests import examples

SEED = 20_260_101
TIMES = [12.1, 14.0, 15.2, 20.0, 11.0]


def test_observations_add_to_the_prior() -> None:
    found = rate_posterior(3, 2.1, prior_count=2.0, prior_years=4.0)
    assert (found.shape, found.years) == (5.0, 6.1)
    assert found.mean() == pytest.approx(5.0 / 6.1)


def test_no_crash_in_a_year_leaves_jeffreys_95_percent_bound() -> None:
    """chi-square with one degree of freedom over two: 3.8415 / 2."""
    assert rate_posterior(0, 1.0).quantile(0.95) == pytest.approx(1.9207, abs=5e-5)


@pytest.mark.parametrize("count", [0, 1, 7])
def test_jeffreys_quantiles_are_those_of_chi_square(count: int) -> None:
    for p in (0.05, 0.5, 0.99):
        expected = stats.chi2.ppf(p, 2 * count + 1) / (2 * 3.0)
        assert rate_posterior(count, 3.0).quantile(p) == pytest.approx(expected)


def test_an_exponentials_mean_has_the_chi_square_bounds_of_life_testing() -> None:
    """Epstein and Sobel: 2 S / mu is chi-square with 2 n degrees of freedom."""
    total = sum(TIMES)
    for p in (0.05, 0.95):
        expected = 2 * total / stats.chi2.ppf(1 - p, 2 * len(TIMES))
        assert time_posterior(TIMES).quantile(p) == pytest.approx(expected)


@examples(40)
@given(st.lists(st.integers(1, 60), min_size=4, max_size=7, unique=True), st.floats(0.05, 0.95))
def test_the_bootstraps_law_is_the_exact_one(samples: list[int], where: float) -> None:
    """P(sum w_i x_i > t) = sum over x_i > t of (x_i - t)^(n-1) / prod_{j != i} (x_i - x_j)."""
    t = min(samples) + where * (max(samples) - min(samples))
    above = math.fsum(
        (x - t) ** (len(samples) - 1) / math.prod(x - y for y in samples if y != x)
        for x in samples
        if x > t
    )
    found = BootstrapMean(tuple(float(x) for x in samples))
    assert found.below(t) == pytest.approx(1 - above, abs=1e-8)


def many(law: Callable[[np.random.Generator], float], n: int) -> list[float]:
    rng = np.random.default_rng(SEED)
    return [law(rng) for _ in range(n)]


POSTERIORS = [
    rate_posterior(0, 1.0),
    rate_posterior(4, 2.0),
    time_posterior(TIMES),
    time_posterior(many(lambda rng: rng.gamma(4.0, 4.0), 40)),
]


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_draws_follow_the_quantiles_and_the_mean(posterior: Posterior) -> None:
    drawn = posterior.sample(np.random.default_rng(SEED), 40_000)
    for p in (0.05, 0.5, 0.95):
        share = float(np.mean(drawn <= posterior.quantile(p)))
        assert share == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / 40_000))
    assert drawn.mean() == pytest.approx(posterior.mean(), rel=4 * drawn.std() / 200 / drawn.mean())


def test_few_samples_are_taken_as_exponential_and_many_are_not() -> None:
    assert isinstance(time_posterior([15.0] * 29), ExponentialMean)
    assert isinstance(time_posterior([15.0] * 30), BootstrapMean)


def test_equal_times_leave_no_doubt_and_no_division_by_zero() -> None:
    found = time_posterior([15.0] * 30)
    assert [found.quantile(p) for p in (0.05, 0.5, 0.95)] == [15.0] * 3
    assert found.sample(np.random.default_rng(SEED), 3) == pytest.approx([15.0] * 3)


def test_the_bound_on_a_crash_rate_holds_as_often_as_it_says() -> None:
    """Over all rates that the prior can meet: the bound covers within 2 % of 95 % on average."""
    rng = np.random.default_rng(SEED)
    rates = rng.uniform(0.2, 6.0, 3_000)
    covered = [
        rate <= rate_posterior(int(count), 1.5).quantile(0.95)
        for rate, count in zip(rates, rng.poisson(rates * 1.5), strict=True)
    ]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("n", [3, 8, 20])
def test_the_bound_on_an_exponential_mean_holds_95_times_of_100(n: int) -> None:
    rng = np.random.default_rng(SEED)
    sets = rng.exponential(10.0, (2_000, n))
    covered = [time_posterior(list(times)).quantile(0.95) >= 10.0 for times in sets]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(("shape", "least"), [(25.0, 0.9), (4.0, 0.89), (1.0, 0.87)])
def test_the_bootstraps_bound_holds_about_as_often_as_it_says(shape: float, least: float) -> None:
    """The measured 88 to 94 % of the module's text, 300 sets of 40 times with mean 10."""
    rng = np.random.default_rng(SEED)
    sets = rng.gamma(shape, 10.0 / shape, (300, 40))
    covered = [BootstrapMean(tuple(times)).below(10.0) <= 0.95 for times in sets]
    assert least <= np.mean(covered) <= 0.97


@pytest.mark.parametrize(
    ("count", "years", "prior", "named"),
    [
        (-1, 1.0, {}, "count"),
        (1.5, 1.0, {}, "count"),
        (True, 1.0, {}, "count"),
        (1, -1.0, {}, "node_years"),
        (1, math.nan, {}, "node_years"),
        (1, math.inf, {}, "node_years"),
        (1, "2", {}, "node_years"),
        (3, 0.0, {}, "no time at all"),
        (0, 1.0, {"prior_count": 0.0}, "prior_count"),
        (0, 1.0, {"prior_count": -0.5}, "prior_count"),
        (0, 1.0, {"prior_years": math.nan}, "prior_node_years"),
    ],
)
def test_counts_that_say_nothing_are_refused(
    count: int, years: float, prior: dict[str, float], named: str
) -> None:
    with pytest.raises(InputError, match=named):
        rate_posterior(count, years, **prior)


def test_no_exposure_is_fine_with_a_proper_prior() -> None:
    assert rate_posterior(0, 0.0, prior_count=2.0, prior_years=4.0).mean() == 0.5


@pytest.mark.parametrize(
    ("samples", "named"),
    [
        ([], "insufficient"),
        ([15.0, 15.0], "insufficient"),
        ([15.0, 0.0, 12.0], r"samples\[1\]"),
        ([15.0, -1.0, 12.0], r"samples\[1\]"),
        ([15.0, math.nan, 12.0], r"samples\[1\]"),
        ([15.0, 12.0, math.inf], r"samples\[2\]"),
    ],
)
def test_times_that_say_nothing_are_refused(samples: list[float], named: str) -> None:
    with pytest.raises(InputError, match=named):
        time_posterior(samples)


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, math.nan])
def test_an_impossible_probability_is_refused(posterior: Posterior, p: float) -> None:
    with pytest.raises(InputError, match="probability"):
        posterior.quantile(p)
