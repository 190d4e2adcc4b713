"""Rewriting: `.rules` files, their checker, and saturation of a graph by them.

Knows graphs and egglog. Must not know targets, nor what is done with a saturated e-graph.
"""

from .egraph import EClass, ENode, Saturated, Search
from .engine import Budget, as_written, saturate
from .parse import parse_rules
from .rules import LEVELS, Numerics, RuleSet, builtin_rules, load_rules, read_rules
from .syntax import CLASSES, Rule, show_rule
from .worker import Worker

__all__ = [
    "CLASSES",
    "LEVELS",
    "Budget",
    "EClass",
    "ENode",
    "Numerics",
    "Rule",
    "RuleSet",
    "Saturated",
    "Search",
    "Worker",
    "as_written",
    "builtin_rules",
    "load_rules",
    "parse_rules",
    "read_rules",
    "saturate",
    "show_rule",
]
