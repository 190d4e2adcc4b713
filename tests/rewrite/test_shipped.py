"""The laws of the shipped rules: each is tried, each has its equation, none is counted on to stop another."""

import pytest
from tdslc.compiler.graph import NO_COMPOSITES
from tdslc.compiler.rewrite import builtin_rules, read_rules
from tdslc.compiler.rewrite.checker import check_rule, show_verdicts
from tdslc.compiler.rewrite.syntax import Rule

RULES = read_rules(builtin_rules())


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_holds(rule: Rule) -> None:
    verdict = check_rule(rule, NO_COMPOSITES)
    assert verdict.kind == "tested", show_verdicts([verdict])


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_has_its_equation_above_it(rule: Rule) -> None:
    assert rule.doc


def test_there_are_enough_for_the_examples() -> None:
    assert len(RULES) >= 40
