"""The rule language: what is read, what is refused and how."""

import pytest
from golden import Case, Golden, golden_cases
from hypothesis import given
from hypothesis import strategies as st
from tdslc.compiler.graph import NO_COMPOSITES
from tdslc.compiler.rewrite import builtin_rules, load_rules, parse_rules, read_rules, show_rule
from tdslc.compiler.rewrite.checker import check_rule
from tdslc.compiler.rewrite.functions import FUNCTIONS
from tdslc.compiler.source import DiagnosticError, SourceFile, read_source, render_all
from tree import ROOT

EVERY_FEATURE = """
# sink a transpose
rule sink @exact:
    for op in elementwise
    op(*transpose(xs, perm=p)) <=> transpose(op(*xs), perm=p)

rule merge @exact @nosz:
    y1 = matmul(x: num[..B, M, K], w1: num[K, N1]); y2 = matmul(x, w2: num[K, N2])
        => y1 = slice(y, axis=-1, start=0, stop=N1); y2 = slice(y, axis=-1, start=N1, stop=N1 + N2)
    let n = N1 + N2
    let y = matmul(x, concat(w1, w2, axis=1))
    where w1 != w2, not (n < 2 or n == 3) and -n < 0, (*B, M)[0] == B[0], (K,)[:1] == (K,), () == B[1:1]
    test N1 = 2

impl tile for mxu @exact:
    matmul(a: bf16[M, K], b: int|bool [K, N]) => mxu.matmul(a, b, tm=128, how="fast")
    where K % 128 == 0, bytes(128 * K, bf16) <= target.vmem
    cost cycles = ceildiv(M, 128) * 2.5e3, hbm = 2 * (M * K + K * N)
"""


def source(text: str) -> SourceFile:
    return SourceFile("my.rules", text)


def round_trips(text: str) -> None:
    rules = parse_rules(source(text))
    again = parse_rules(source("".join(map(show_rule, rules))))
    assert again == rules
    assert [r.doc for r in again] == [r.doc for r in rules]


def test_every_feature_round_trips() -> None:
    round_trips(EVERY_FEATURE)


@pytest.mark.parametrize("path", builtin_rules(), ids=lambda p: p.stem)
def test_shipped_files_round_trip(path) -> None:
    round_trips(path.read_text(encoding="utf-8"))


def test_spans_point_into_the_file() -> None:
    rules = parse_rules(source(EVERY_FEATURE))
    assert [r.span.text for r in rules] == ["sink", "merge", "tile"]
    assert rules[0].doc == "sink a transpose"


@golden_cases("rewrite/mistakes")
def test_mistakes(case: Case, golden: Golden) -> None:
    with pytest.raises(DiagnosticError) as caught:
        parse_rules(source(case.input))
    golden.check(case, render_all(caught.value.diagnostics))


_WORDS = st.sampled_from(
    [
        "rule a @exact:\n",
        "    ",
        "neg(x)",
        " => ",
        "x",
        "(",
        ")",
        "[",
        "*",
        "..B",
        ",",
        "where ",
        "let y = ",
        "\n",
        "1",
        "-",
        "not ",
        "for op in view\n",
    ]
)


@given(st.lists(_WORDS, max_size=30).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        rules = parse_rules(source(text))
    except DiagnosticError:
        return
    assert parse_rules(source("".join(map(show_rule, rules)))) == rules


def test_a_name_is_taken_once_over_all_files(tmp_path) -> None:
    mine = tmp_path / "my.rules"
    mine.write_text("rule mul_one @exact:\n    mul(x, full(1)) => x\n")
    with pytest.raises(DiagnosticError, match="two rules are called mul_one"):
        read_rules([*builtin_rules(), mine])


def test_levels_of_numerics() -> None:
    on = {level: {r.name for r in load_rules(builtin_rules(), level).rules} for level in ("exact", "reassoc", "fast")}
    assert on["exact"] < on["reassoc"] < on["fast"]
    assert "add_zero" not in on["reassoc"]
    assert {r.name for r in load_rules(builtin_rules(), "fast").rules} == {r.name for r in read_rules(builtin_rules())}


def test_disabled_rules_are_off_and_must_exist() -> None:
    rules = load_rules(builtin_rules(), disabled=["mul_one"])
    assert "mul_one" not in {r.name for r in rules.rules}
    assert "mul_one" in {r.name for r in rules.off}
    with pytest.raises(DiagnosticError, match="no rule mul_onee"):
        load_rules(builtin_rules(), disabled=["mul_onee"])


def test_the_digest_sees_rules_and_not_comments(tmp_path) -> None:
    texts = [
        "rule a @exact:\n    neg(neg(x)) => x\n",
        "# why\nrule a @exact:\n  neg( neg(x) )  =>\n  x\n",
        "rule a @exact:\n    abs(neg(x)) => x\n",
    ]
    digests = []
    for i, text in enumerate(texts):
        path = tmp_path / f"{i}.rules"
        path.write_text(text)
        digests.append(load_rules([path]).digest)
    assert digests[0] == digests[1] != digests[2]


def test_the_readme_lists_every_function() -> None:
    text = (ROOT / "rules" / "README.md").read_text(encoding="utf-8")
    missing = [row.call for row in FUNCTIONS.values() if f"`{row.call}`" not in text]
    assert not missing


def test_the_readmes_better_rules_hold() -> None:
    text = (ROOT / "rules" / "README.md").read_text(encoding="utf-8")
    blocks = [parse_rules(source(block.split("```")[0])) for block in text.split("```rules\n")[1:]]
    pairs = [block for block in blocks if [r.name for r in block] == ["bad", "better"]]
    assert len(pairs) == 5
    for _, better in pairs:
        assert check_rule(better, NO_COMPOSITES).kind == "tested"
    # These two are bad because they are wrong; the others cost too much.
    assert [check_rule(bad, NO_COMPOSITES).kind for bad, _ in pairs[3:]] == ["refuted", "refuted"]


def test_files_are_found_inside_the_package() -> None:
    assert [read_source(p).path for p in builtin_rules()] == sorted(str(p) for p in builtin_rules())
