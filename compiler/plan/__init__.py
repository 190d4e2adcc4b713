"""Planning: from a saturated e-graph to kernels, layouts, placement and a schedule.

Asks the target everything through `target.py`. Must not know any one target.
"""

from .evaluate import evaluate_plan, load_values
from .extract import ExtractionReport
from .fuse import plan, plan_seconds, unfused_plan
from .load_program import split_load
from .origin import Origin
from .pricing import Pricer
from .rewriting import Optimised, optimise
from .text import PlanTextError, parse_plan, show_plan
from .verify import verify_plan

__all__ = [
    "ExtractionReport",
    "Optimised",
    "Origin",
    "PlanTextError",
    "Pricer",
    "evaluate_plan",
    "load_values",
    "optimise",
    "parse_plan",
    "plan",
    "plan_seconds",
    "show_plan",
    "split_load",
    "unfused_plan",
    "verify_plan",
]
