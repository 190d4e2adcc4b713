"""`tdslc csl`: check, run and trace CSL programs, and run scripts that drive them.

Flags and what is said; what a command does is done by the rooms below. Imports nothing heavy before it is needed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from .host.drive import Outcome

OK, DIAGNOSTICS, NO_ANSWER = 0, 1, 3


@click.group()
def csl() -> None:
    """Check, run and trace CSL programs on a simulated wafer."""


def _program_flags(f: Any) -> Any:
    options = [
        click.option("--arch", type=click.Choice(["wse2", "wse3"]), default="wse3", show_default=True, help="Machine."),
        click.option("--machine", metavar="FILE", help="A machine file of your own, instead of --arch."),
        click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a figure of the machine."),
        click.option("--params", multiple=True, metavar="A:1,B:2", help="Params of the layout; repeatable."),
        click.option("--colors", multiple=True, metavar="C:1,D:2", help="Colors of the layout; repeatable."),
        click.option("--fabric-dims", metavar="W,H", help="PEs of the fabric around the rectangle."),
        click.option("--fabric-offsets", metavar="X,Y", help="Where the rectangle lies in it."),
        click.option("--import-path", multiple=True, metavar="DIR", help="Where imports are looked for too."),
        click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout."),
    ]
    for option in reversed(options):
        f = option(f)
    return f


def _run_flags(f: Any) -> Any:
    options = [
        click.option("--copy", "copies", multiple=True, metavar="NAME=FILE.npy",
                     help="Copy an array [h, w, n] to a symbol of all PEs, before launches."),
        click.option("--launch", "launches", multiple=True, metavar="FN[:A,B]",
                     help="Call a function on all PEs, with arguments; repeatable, in order."),
        click.option("--get", "gets", multiple=True, metavar="NAME=FILE.npy[:DTYPE]",
                     help="Copy a symbol of all PEs into a file afterwards  [default dtype: that of the symbol]"),
        click.option("--engine", type=click.Choice(["auto", "reference", "batched"]), default="auto",
                     show_default=True, help="How the mesh is simulated."),
        click.option("--max-cycles", type=click.IntRange(1), default=1_000_000_000, help="Stop an endless program."),
    ]  # fmt: skip
    for option in reversed(options):
        f = option(f)
    return f


@csl.command()
@click.argument("layout")
@_program_flags
def check(layout: str, as_json: bool, **flags: Any) -> int:
    """Check the program of LAYOUT: layout, types, ids, routes and memory."""
    from .host.cslc import summary
    from .host.drive import Request, compiled

    program = compiled(Request.of(layout, flags))
    if as_json:
        click.echo(json.dumps(_checked(program), indent=2))
        return OK
    _remarks(program.notes)
    click.echo(summary(program))
    return OK


@csl.command()
@click.argument("layout")
@_program_flags
@_run_flags
@click.option("--map", "shown", type=click.Choice(["busy", "sent", "received"]), help="Draw a map of the PEs.")
def run(layout: str, as_json: bool, shown: str | None, **flags: Any) -> int:
    """Run the program of LAYOUT and say what its PEs did."""
    outcome = _driven(layout, flags)
    if as_json:
        click.echo(json.dumps(outcome.report.as_dict(), indent=2))
        return OK
    for line in outcome.log:
        click.echo(line)
    click.echo(outcome.report.text())
    if shown:
        click.echo(outcome.report.map(shown))
    return OK


@csl.command()
@click.argument("layout")
@_program_flags
@_run_flags
@click.option("-o", "out", default="trace.perfetto.json", show_default=True, metavar="FILE", help="The trace.")
def trace(layout: str, as_json: bool, out: str, **flags: Any) -> int:
    """Run the program of LAYOUT and write a trace that ui.perfetto.dev opens."""
    from .host.drive import write_text

    outcome = _driven(layout, flags, trace=True)
    write_text(Path(out), outcome.trace)
    click.echo(json.dumps({"trace": out}) if as_json else f"trace of {outcome.report.cycles:,} cycles in {out}")
    return OK


@csl.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--strict",
    is_flag=True,
    help="Find reads of memory that was never written and DSDs that leave their variable; existing programs have them.",
)
@click.argument("script")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def execute(strict: bool, script: str, args: Sequence[str]) -> int:
    """Run SCRIPT (a run.py, or a .sh that calls cslc and cs_python) with `cerebras.sdk` and `cslc` in its reach."""
    from .host.execute import execute as start

    return start(script, args, strict)


def _driven(layout: str, flags: dict[str, Any], trace: bool = False) -> Outcome:
    from .host.drive import Request, drive

    return drive(Request.of(layout, flags), trace)


def _remarks(notes: Sequence[Any]) -> None:
    from ...compiler.source import render_all

    if notes:
        print(render_all(notes), file=sys.stderr)


def _checked(program: Any) -> dict[str, Any]:
    r = program.rectangle
    return {
        "schema": "tdslc-csl-check/1",
        "machine": program.arch.name,
        "rectangle": {"width": r.width, "height": r.height},
        "classes": [
            {"file": Path(c.path).name, "pes": len(c.x), "memory_bytes": c.memory.used_bytes} for c in program.classes
        ],
        "notes": [n.message for n in program.notes],
    }
