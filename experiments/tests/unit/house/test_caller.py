"""Tests do not depend on who calls them, and how."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from experiments.paths import ROOT
from experiments.tests.started import disposition


@pytest.fixture
def conftest(pytestconfig: pytest.Config) -> Any:
    """The one of the whole suite, whose module's name others have too."""
    return pytestconfig.pluginmanager.get_plugin(str(ROOT / "conftest.py"))


def test_what_a_test_starts_heeds_ctrl_c_though_the_suite_runs_in_the_background(
    conftest: Any,
) -> None:
    with disposition(signal.SIGINT, signal.SIG_IGN):
        conftest.heed_ctrl_c()
        assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_a_callers_terminal_account_and_stack_are_forgotten_and_nothing_else(conftest: Any) -> None:
    kept = {"PATH": "/bin", "TF_CLI_CONFIG_FILE": "rc", "SPARECRAFT_TEST_SEED": "7", "TERM": "dumb"}
    callers = dict.fromkeys(
        ("COLUMNS", "FORCE_COLOR", "AWS_PROFILE", "TF_WORKSPACE", "TF_VAR_x", "SPARECRAFT_KINDS"),
        "1",
    )
    environment = kept | callers
    conftest.forget_caller(environment)
    assert environment == kept
