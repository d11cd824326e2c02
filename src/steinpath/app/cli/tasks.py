"""Regression and classification: the task of a command, and its defaults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from steinpath.app.classes import ERROR_RATE, USUAL_LOSS, USUAL_LOSSES, fit_classes
from steinpath.app.defaults import TASKS
from steinpath.app.fitting import Fit, FitData, fit_model
from steinpath.app.model_spec import is_for_classes, loss_names
from steinpath.problem._scoring import CRITERIA


@dataclass(frozen=True)
class Task:
    """Defaults of a task.

    Attributes
    ----------
    fit : callable
        Fits a model.
    """

    fit: Callable[..., Fit]

    def usual_losses(self, quantile: float | None, several: bool) -> Sequence[str]:
        """Return the default training losses."""
        if quantile is not None:
            return ("quantile",)
        return ("lad", "huber", "square_root") if several else ("lad",)

    def common_test_loss(self, quantile: float | None) -> str:
        """Return the scoring loss for comparing training losses."""
        return "absolute" if quantile is None else "quantile"


class _Classification(Task):
    def usual_losses(self, quantile: float | None, several: bool) -> Sequence[str]:
        return USUAL_LOSSES if several else (USUAL_LOSS,)

    def common_test_loss(self, quantile: float | None) -> str:
        return ERROR_RATE


def task_of(data: FitData) -> Task:
    """Return the task of some data."""
    return _Classification(fit_classes) if data.encoded.classes else Task(fit_model)


def requested_task(losses: Sequence[str], options: dict[str, Any]) -> str | None:
    """Return the task that the options request, explicitly or because they require it.

    Parameters
    ----------
    losses : sequence of str
        The losses of the command line.
    options : dict
        Its other options.

    Returns
    -------
    str or None
        None if the task is inferred from the target.
    """
    reasons = [(f"--loss {_option(loss)}", is_for_classes(loss)) for loss in losses]
    if options["test_loss"] is not None:
        name = options["test_loss"]
        reasons.append((f"--test-loss {_option(name)}", CRITERIA[name].margin))
    if options["q"] is not None:
        reasons.append(("--quantile", False))
    if options["class_weight"] is not None:
        reasons.append(("--class-weight", True))
    if options["task"] is not None:
        reasons.insert(0, (f"--task {options['task']}", options["task"] == TASKS[1]))
    if not reasons:
        return None
    first, for_classes = reasons[0]
    for other, differs in ((name, kind != for_classes) for name, kind in reasons):
        if differs:
            kinds = TASKS[for_classes], TASKS[not for_classes]
            raise click.UsageError(
                f"{first} and {other} cannot be used together, since {other} is for {kinds[1]}; "
                f"losses for {kinds[0]} are {', '.join(_losses_for(for_classes))}"
            )
    return TASKS[for_classes]


def _losses_for(classes: bool) -> list[str]:
    return [_option(name) for name in loss_names() if is_for_classes(name) == classes]


def check_quantile(losses: Sequence[str], options: dict[str, Any]) -> None:
    """Refuse a quantile that neither the training loss nor the scoring loss uses."""
    if options["q"] is None:
        return
    if losses and "quantile" not in losses and options["test_loss"] != "quantile":
        raise click.UsageError(f"--quantile requires --loss quantile, got --loss {losses[0]}")


def _option(name: str) -> str:
    return name.replace("_", "-")
