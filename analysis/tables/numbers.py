"""How is a number written for people?"""

from __future__ import annotations

import math


def number(value: float, form: str) -> str:
    """In the form given; a dash where there is none."""
    return "-" if math.isnan(value) else form.format(value)


def p_value(p: float) -> str:
    """Never 0: a p value below a thousandth is only that."""
    if math.isnan(p):
        return "p undefined"
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"
