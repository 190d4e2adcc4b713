"""Reports: what people read of a build, as tables, traces and differences.

Reads values and computes nothing that a build does not say. Must not know how the values were computed, nor the
command line (colour, paging, exit codes).
"""

from .diff import Difference, Threshold, compare, parse_threshold, show_difference
from .perfetto import trace_json
from .tables import Table, table
from .text import show_checks, show_report, side_by_side, summary

__all__ = [
    "Difference",
    "Table",
    "Threshold",
    "compare",
    "parse_threshold",
    "show_checks",
    "show_difference",
    "show_report",
    "side_by_side",
    "summary",
    "table",
    "trace_json",
]
