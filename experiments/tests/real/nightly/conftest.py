"""Fixtures of nights."""

from experiments.tests.nights import nights as nights
from experiments.tests.nights import no_site as no_site
from experiments.tests.nights import template as template
