"""The rules of a build: those that are shipped, the target's own, and the user's, which are checked first.

Must not know plans nor any one target.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from ..graph import Composites
from ..plan.target import Machine
from ..rewrite import Budget, RuleSet, builtin_rule_files, check_rules, load_rules, parse_rules
from ..source import Diagnostic, DiagnosticError, did_you_mean, read_source
from .folder import digest
from .options import BuildOptions

# How much further `--opt 3` searches.
_FURTHER = 4


@dataclass(frozen=True, slots=True)
class Rules:
    """A set of rules and the sha256 of the files it came from."""

    ruleset: RuleSet
    files: Mapping[str, str] = field(default_factory=dict[str, str])
