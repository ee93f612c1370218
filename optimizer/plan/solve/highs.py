"""HiGHS through Pyomo: only this module hands over a program and reads the answer."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.errors import PlannerError


class TimeLimitError(Exception):
    """HiGHS met its time limit."""


@dataclass(frozen=True)
class Answer:
    """Values by variable, None if there are none (yet); no objective is less than `bound`."""

    values: Mapping[Any, float] | None
    bound: float
    proved: bool


def pyomo_environ() -> Any:
    """Return pyomo.environ, imported late (1 s); it exports nothing that a type checker sees."""
    return importlib.import_module("pyomo.environ")


class Highs:
    """A solver that keeps its state of a program from one solve to the next."""

    def __init__(self) -> None:
        self._solver = importlib.import_module("pyomo.contrib.solver.solvers.highs").Highs()

    def hand_over(self, model: Any) -> None:
        """Give the program to HiGHS; a solve does so by itself."""
        self._solver.set_instance(model)

    def answer(self, model: Any, limit_s: float, *, presolve: str, abs_gap: float = 0.0) -> Answer:
        """Return the optimum, infeasibility, or the state at the time limit [s].

        Raises: PlannerError where HiGHS fails.
        """
        conditions = importlib.import_module(
            "pyomo.contrib.solver.common.results"
        ).TerminationCondition
        result = self._solver.solve(
            model,
            load_solutions=False,
            raise_exception_on_nonoptimal_result=False,
            rel_gap=0.0,
            abs_gap=abs_gap,
            threads=1,
            time_limit=max(0.1, limit_s),
            solver_options={"presolve": presolve},
        )
        condition = result.termination_condition
        if condition in (conditions.provenInfeasible, conditions.infeasibleOrUnbounded):
            return Answer(None, math.inf, True)
        proved = condition == conditions.convergenceCriteriaSatisfied
        if not proved and condition != conditions.maxTimeLimit:
            raise PlannerError("plan", expected="an optimum from HiGHS", got=str(condition))
        bound, best = result.objective_bound, result.incumbent_objective
        known = proved or (best is not None and math.isfinite(best))
        values = result.solution_loader.get_vars() if known else None
        return Answer(values, -math.inf if bound is None else float(bound), proved)

    def optimum(self, model: Any, limit_s: float, *, presolve: str) -> Mapping[Any, float] | None:
        """Return the optimum's values; None if the program is infeasible.

        Raises: TimeLimitError at the time limit [s]; as `answer`.
        """
        answer = self.answer(model, limit_s, presolve=presolve)
        if not answer.proved:
            raise TimeLimitError
        return answer.values
