"""The page's reader."""

from experiments.tests.tutorial import reader as reader
