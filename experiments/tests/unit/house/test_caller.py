"""Tests do not depend on who calls them, and how."""

from __future__ import annotations

import signal

import conftest
from experiments.tests.started import disposition


def test_what_a_test_starts_heeds_ctrl_c_though_the_suite_runs_in_the_background() -> None:
    with disposition(signal.SIGINT, signal.SIG_IGN):
        conftest.heed_ctrl_c()
        assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_a_callers_terminal_account_and_stack_are_forgotten_and_nothing_else() -> None:
    kept = {"PATH": "/bin", "TF_CLI_CONFIG_FILE": "rc", "SPARECRAFT_TEST_SEED": "7", "TERM": "dumb"}
    callers = dict.fromkeys(
        ("COLUMNS", "FORCE_COLOR", "AWS_PROFILE", "TF_WORKSPACE", "TF_VAR_x", "SPARECRAFT_KINDS"),
        "1",
    )
    environment = kept | callers
    conftest.forget_caller(environment)
    assert environment == kept
