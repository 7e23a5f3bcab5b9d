"""What is a piece called, once it is made? As it was asked for: `ppo_clip(0.2, 0.28)`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])


def piece(make: Callable[P, F]) -> Callable[P, F]:
    """Let a function that makes a piece give it a name, so that an estimator can be read.

    Without it every trust region is called `surrogate`: tables, logs and error messages could not tell one
    from another. What `make` returns must be new at every call.
    """

    @functools.wraps(make)
    def named(*args: P.args, **kwargs: P.kwargs) -> F:
        made = make(*args, **kwargs)
        words = [*map(called, args), *(f"{name}={called(value)}" for name, value in kwargs.items())]
        name = make.__name__.lstrip("_")
        made.__name__ = made.__qualname__ = f"{name}({', '.join(words)})"
        return made

    return named


def called(thing: object) -> str:
    """The name of a function, with the arguments that a `partial` or a `piece` has fixed; other values as
    they are printed."""
    if isinstance(thing, functools.partial) and "__name__" not in vars(thing):
        fixed = [*map(called, thing.args), *(f"{k}={called(v)}" for k, v in thing.keywords.items())]
        return f"{called(thing.func)}({', '.join(fixed)})"
    if isinstance(thing, float):
        return f"{thing:g}"
    if isinstance(thing, tuple):
        return f"({', '.join(map(called, thing))})"
    return str(getattr(thing, "__name__", thing))
