"""The command line: flags, progress, colour and exit codes. What a command does is done by the compiler's rooms.

Nothing heavy is imported before a command needs it: `--help` answers at once. Must not know how anything is computed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from .compiler.build.options import BuildOptions
    from .compiler.source import Diagnostic

F = TypeVar("F", bound=Callable[..., Any])

OK, DIAGNOSTICS, USAGE, NO_FIT, WRONG_NUMBERS, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 4, 70, 130
LEVELS = ("graph", "rewritten", "plan", "program")
EXPORTED = LEVELS[:2]
NUMERICS = ("exact", "reassoc", "fast")
_DEFAULT_WIDTH = 100
# Progress is shown for what takes longer than this.
_PATIENCE_SECONDS = 1.0


def main() -> int:
    """Run the command that `sys.argv` asks for; its exit code."""
    try:
        return _run(sys.argv[1:])
    except BrokenPipeError:
        # The reader went away (`tdslc report | head`); nothing more can be said to it.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # kept until the process ends
        return DIAGNOSTICS


def _run(args: Sequence[str]) -> int:
    as_json = _wants_json(args)
    try:
        code = app.main(args=list(args), prog_name="tdslc", standalone_mode=False)
        return code if isinstance(code, int) else OK
    except click.UsageError as error:
        return _usage(error, as_json)
    except (KeyboardInterrupt, click.Abort):
        return _told([_diagnostic("E0710", "interrupted")], as_json, INTERRUPTED)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001  # whatever it is, it is ours: it becomes a bundle, not a traceback
        from .compiler.source import DiagnosticError

        if isinstance(error, DiagnosticError):
            return _told(error.diagnostics, as_json)
        return _crashed(error, args, as_json)


# ---- flags ---------------------------------------------------------------------------------------


class Pair(click.ParamType):  # pyright: ignore[reportMissingTypeArgument]  # generic in some versions only
    """`NAME=VALUE`."""

    name = "NAME=VALUE"

    def __init__(self, whole: bool = False) -> None:
        self.whole = whole
        self.name = "NAME=INT" if whole else "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str | int]:
        name, equals, text = str(value).partition("=")
        if not equals or not name or not text:
            self.fail(f"`{value}` is not {self.name}", param, ctx)
        if not self.whole:
            return name.strip(), text.strip()
        digits = text.strip().lower()
        scale = {"k": 10**3, "m": 10**6}.get(digits[-1:], 1)
        number = digits[:-1] if scale > 1 else digits
        if not number.removeprefix("-").isdigit() or not number.isascii() or len(number) > 18:
            self.fail(f"`{text}` is not a whole number", param, ctx)
        return name.strip(), int(number) * scale


def _json_flags(f: F) -> F:
    f = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, errors included.")(f)
    return click.option("--format", "form", type=click.Choice(["human", "json"]), default="human", help="As --json.")(f)


def _build_flags(f: F) -> F:
    """The flags that say what is built; `run` takes them with a model file."""
    options = [
        click.option("--target", "targets", multiple=True, metavar="T:CHIP", help="mxu:v5e or mxu:FILE.toml."),
        click.option("--dim", "dims", multiple=True, type=Pair(whole=True), help="Fix a dim, as in S=128."),
        click.option("--dtype", "dtypes", multiple=True, type=Pair(), help="Choose a dtype, as in T=f32."),
        click.option("--model", "entry", metavar="NAME", help="Which model of a file that has several."),
        click.option("--weights", metavar="FILE", help="A .safetensors file; `random:SEED` with run."),
        click.option("--rules", "rules", multiple=True, metavar="FILE", help="More rewrite rules; repeatable."),
        click.option("--no-rule", "disabled", multiple=True, metavar="NAME", help="Leave a rule out; repeatable."),
        click.option("--numerics", type=click.Choice(NUMERICS), default="reassoc", show_default=True,
                     help="Which classes of rules may be used."),
        click.option("--unchecked", is_flag=True, help="Use --rules without checking that they hold."),
        click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a figure of the chip."),
        click.option("--opt", type=click.IntRange(0, 3), default=2, show_default=True,
                     help="0 no rules, no fusion; 1 no rules; 3 searches further."),
        click.option("--budget", multiple=True, type=Pair(whole=True), help="A knob of the search, as in e_nodes=50k."),
        click.option("--no-fuse", is_flag=True, help="One kernel per op."),
        click.option("--bind", "binds", multiple=True, type=Pair(), metavar="NAME=FILE",
                     help="Fix an input of an .onnx model to a value."),
        click.option("--partition", is_flag=True,
                     help="Run what cannot be compiled of an .onnx model on the host."),
        click.option("-o", "out", metavar="DIR", help="The build folder  [default: build/MODEL-TARGET-CHIP]"),
    ]  # fmt: skip
    for option in reversed(options):
        f = option(f)
    return f


class _Commands(click.Group):
    """The commands below, and those that targets bring (entry points of "tdslc.commands"), loaded when asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *(e.name for e in self._brought())})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        own = super().get_command(ctx, cmd_name)
        brought = (e.load() for e in self._brought() if e.name == cmd_name)
        return own or next(brought, None)

    def _brought(self) -> Sequence[Any]:
        from importlib.metadata import entry_points

        return entry_points(group="tdslc.commands")


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 ok, 1 a mistake in what was given, 2 usage, 3 does not fit, 4 wrong numbers, 70 our fault.",
)
@click.version_option(message="tdslc %(version)s", package_name="tdslc")
def app() -> None:
    """A tensor compiler whose optimiser is text.

    \b
    tdslc build model.tdsl --target mxu:v5e
    tdslc run model.tdsl --target mxu:v5e --weights w.safetensors --input x=x.npy --check
    tdslc report build/model-mxu-v5e --by kernel
    """


# ---- commands ------------------------------------------------------------------------------------


@app.command()
@click.argument("files", nargs=-1, required=True)
@_json_flags
def check(files: tuple[str, ...], as_json: bool, form: str) -> int:
    """Check model files: syntax, names, shapes, dtypes."""
    from .compiler.language import check_file

    found = [diagnostic for file in files for diagnostic in check_file(file)]
    code = _told(found, as_json or form == "json", empty_document=True)
    if not found and not (as_json or form == "json"):
        click.echo(f"{len(files)} file{'s' * (len(files) != 1)} checked, no mistakes found")
    return code


@app.command()
@click.argument("model", required=False)
@_build_flags
@click.option("--emit", multiple=True, type=click.Choice(LEVELS), help="Print a level's text; repeatable.")
@click.option("--stop-after", type=click.Choice(LEVELS), help="Go no further than this level.")
@click.option("--from", "start", metavar="DIR@LEVEL", help="Go on from a level of another build.")
@_json_flags
def build(model: str | None, as_json: bool, form: str, emit: tuple[str, ...], start: str | None, **flags: Any) -> int:
    """Build a model for one or several targets, and say what it costs."""
    from .compiler.build.command import build_targets

    as_json = as_json or form == "json"
    _refuse_unreached(emit, flags["stop_after"])
    requests = _requests(model, start, flags)
    with _Progress(as_json) as progress:
        done = build_targets(requests, flags["out"], progress, write=True)
    return _show_builds(done, emit, as_json)


@app.command()
@click.argument("model")
@_build_flags
@click.option(
    "--input", "inputs", multiple=True, metavar="NAME=FILE", help="FILE.npy, FILE.npz:T, FILE.safetensors:T, rand:SEED."
)
@click.option("--check", "checked", is_flag=True, help="Compare with the model as written; exit 4 when it differs.")
@click.option("--expect", multiple=True, metavar="OUT=FILE", help="Compare an output with labels or values.")
@click.option("--save", metavar="PATH", help="Write outputs: a .npy or .npz file, or a folder.")
@_json_flags
@click.pass_context
def run(
    ctx: click.Context, model: str, as_json: bool, form: str, inputs: tuple[str, ...], checked: bool,
    expect: tuple[str, ...], save: str | None, **flags: Any,
) -> int:  # fmt: skip
    """Run a build folder, or build a model file and run it, on the simulator; several targets end in one table."""
    from .compiler.build.command import RunRequest, run_folder, run_model, run_models

    as_json = as_json or form == "json"
    request = RunRequest(inputs, flags["weights"], checked, expect, save)
    with _Progress(as_json) as progress:
        if os.path.isdir(model):
            _refuse_build_flags(ctx)
            done = run_folder(model, request, progress)
        else:
            requests = _requests(model, None, flags)
            if save and len(requests) > 1:
                raise click.UsageError("--save names one place, but there are several targets")
            if len(requests) > 1:
                return _show_runs(run_models(requests, request, progress), as_json)
            done = run_model(requests[0], request, flags["out"], progress)
    return _show_run(done, as_json)


@app.command("import")
@click.argument("model")
@click.option("--dim", "dims", multiple=True, type=Pair(whole=True), help="Fix a symbolic dim, as in batch=1.")
@click.option("--bind", "binds", multiple=True, type=Pair(), metavar="NAME=FILE", help="Fix an input to a value.")
@click.option(
    "--ignore-stated", is_flag=True, help="Do not refuse shapes that differ from those that the model states."
)
@click.option("--entry", metavar="NAME", help="The function of a StableHLO text  [default: main]")
@click.option("-o", "out", metavar="DIR", help="The folder to write to  [default: the model's name]")
@_json_flags
def import_(
    model: str, dims: tuple[tuple[str, int], ...], binds: tuple[tuple[str, str], ...], ignore_stated: bool,
    entry: str | None, out: str | None, as_json: bool, form: str,
) -> int:  # fmt: skip
    """Write an ONNX model or a StableHLO text as a .tdsl text and a .safetensors file."""
    from .compiler.build.imports import import_document, import_onnx, import_stablehlo, import_text
    from .compiler.build.model import STABLEHLO_SUFFIXES

    if model.endswith(STABLEHLO_SUFFIXES):
        if dims or binds or ignore_stated:
            raise click.UsageError("--dim, --bind and --ignore-stated are for .onnx models")
        done = import_stablehlo(model, entry, out)
    elif entry is not None:
        raise click.UsageError("--entry is for StableHLO texts")
    else:
        done = import_onnx(model, dict(dims), dict(binds), out, ignore_stated)
    return _document(import_document(done)) if as_json or form == "json" else _printed(import_text(done))


@app.command("export")
@click.argument("model")
@click.option("-o", "out", metavar="FILE", required=True, help="FILE.onnx, or FILE.mlir for StableHLO.")
@click.option("--weights", metavar="FILE", help="Embed the values of a .safetensors file; else params are inputs.")
@click.option("--dim", "dims", multiple=True, type=Pair(whole=True), help="Fix a dim, as in S=128.")
@click.option("--dtype", "dtypes", multiple=True, type=Pair(), help="Choose a dtype, as in T=f32.")
@click.option("--model", "entry", metavar="NAME", help="Which model of a file that has several.")
@click.option(
    "--bind", "binds", multiple=True, type=Pair(), metavar="NAME=FILE", help="Fix an input of an .onnx model."
)
@click.option("--level", type=click.Choice(EXPORTED), help="Of a build folder  [default: rewritten]")
@_json_flags
@click.pass_context
def export(
    ctx: click.Context, model: str, out: str, weights: str | None, dims: tuple[tuple[str, int], ...],
    dtypes: tuple[tuple[str, str], ...], entry: str | None, binds: tuple[tuple[str, str], ...], level: Any,
    as_json: bool, form: str,
) -> int:  # fmt: skip
    """Write a model, or the graph of a build folder, for other compilers: as ONNX or StableHLO."""
    from .compiler.build.exports import export_document, export_model, export_text
    from .compiler.build.options import BuildOptions

    if os.path.isdir(model):
        _refuse_build_flags(ctx)
    elif level == "rewritten":
        raise click.UsageError("--level rewritten: give a build folder, which `tdslc build` makes")
    options = BuildOptions(model, entry=entry, dims=dict(dims), dtypes=dict(dtypes), weights=weights, binds=dict(binds))
    done = export_model(options, out, level)
    if as_json or form == "json":
        return _document(export_document(done, _as_json))
    click.echo(export_text(done))
    return _told(done.diagnostics, as_json=False)


@app.command()
@click.argument("folder")
@click.option("--by", type=click.Choice(["kernel", "op", "memory"]), help="One table only.")
@_json_flags
def report(folder: str, by: Any, as_json: bool, form: str) -> int:
    """Show what a build costs and what limits it."""
    from .compiler.build.folder import read_json, read_manifest
    from .compiler.report import show_report

    read_manifest(folder)
    figures = read_json(folder, "report.json")
    memory = read_json(folder, "memory.json") if by == "memory" else None
    if as_json or form == "json":
        return _document(figures if memory is None else memory)
    click.echo(show_report(figures, by, memory, _width()))
    return OK


@app.command()
@click.argument("a")
@click.argument("b")
@click.option(
    "--fail-if", "thresholds", multiple=True, metavar="TEST", help="Exit 4 if, as in 'seconds>+2%'; repeatable."
)
@_json_flags
def diff(a: str, b: str, thresholds: tuple[str, ...], as_json: bool, form: str) -> int:
    """Compare two builds: totals, kernels, rules that fired, options."""
    from .compiler.build.folder import read_json, read_manifest
    from .compiler.report import compare, parse_threshold, show_difference

    try:
        for text in thresholds:
            parse_threshold(text)
    except ValueError as error:
        raise click.UsageError(f"--fail-if: {error}") from None
    before, after = (read_manifest(folder)["options"] for folder in (a, b))
    found = compare(read_json(a, "report.json"), read_json(b, "report.json"), before, after, thresholds)
    crossed = [_diagnostic("E0802", f"B crosses `{text}`") for text in found.failed]
    if as_json or form == "json":
        return _document({**found.to_json(), "diagnostics": _as_json(crossed)}, _code(crossed))
    click.echo(show_difference(found, a, b, _width()))
    return _told(crossed, as_json=False)


@app.command()
@click.argument("spec", required=False)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a figure of the chip.")
@_json_flags
def targets(spec: str | None, overrides: tuple[str, ...], as_json: bool, form: str) -> int:
    """List targets and chips, or the figures of one chip with their units and sources."""
    from .compiler.build.queries import about_chip, list_targets
    from .compiler.report.targets import show_chip, show_targets

    as_json = as_json or form == "json"
    if spec is None and overrides:
        raise click.UsageError("--set: name the chip too, as in `tdslc targets mxu:v5e --set KEY=VALUE`")
    if spec is None or (":" not in spec and not overrides):
        listed = list_targets(spec)
        return _document({"targets": listed}) if as_json else _printed(show_targets(listed))
    figures = about_chip(spec, overrides)
    return _document(figures) if as_json else _printed(show_chip(figures, _width()))


@app.group()
def rules() -> None:
    """The rewrite rules: what they say, and whether they hold."""


@rules.command("list")
@click.argument("files", nargs=-1)
@click.option("--target", metavar="T:CHIP", help="The rules of this target too.")
@click.option("--numerics", type=click.Choice(NUMERICS), default="reassoc", show_default=True)
@_json_flags
def rules_list(files: tuple[str, ...], target: str | None, numerics: Any, as_json: bool, form: str) -> int:
    """List the shipped rules, or those of FILES, and which of them --numerics turns on."""
    from .compiler.build.queries import list_rules
    from .compiler.report.rules import show_rules

    rows = list_rules(files, target, numerics)
    return _document({"rules": rows}) if as_json or form == "json" else _printed(show_rules(rows, _width()))


@rules.command("check")
@click.argument("files", nargs=-1, required=True)
@_json_flags
def rules_check(files: tuple[str, ...], as_json: bool, form: str) -> int:
    """Check that the rules of FILES hold, on small instances; a counterexample for each that does not."""
    from .compiler.build.queries import check_rule_files

    checked = check_rule_files(files)
    if as_json or form == "json":
        return _document(
            {"verdicts": checked.rows, "diagnostics": _as_json(checked.diagnostics)}, _code(checked.diagnostics)
        )
    if checked.text:
        click.echo(checked.text)
    return _told(checked.diagnostics, as_json=False)


# ---- requests ------------------------------------------------------------------------------------


def _requests(model: str | None, start: str | None, flags: Mapping[str, Any]) -> list[BuildOptions]:
    """What is to be built, one for each target."""
    from .compiler.build.command import options_from

    if (model is None) == (start is None):
        raise click.UsageError("give a model file, or --from DIR@LEVEL")
    if start is not None and not (start.rpartition("@")[0] and start.rpartition("@")[2] in LEVELS):
        raise click.UsageError(f"--from: `{start}` is not DIR@LEVEL, the level one of {', '.join(LEVELS)}")
    if model is not None and not flags["targets"]:
        raise click.UsageError("give a --target, as in --target mxu:v5e (`tdslc targets` lists them)")
    if flags["out"] and len(flags["targets"]) > 1:
        raise click.UsageError("-o names one folder, but there are several targets")
    return options_from(model, start, flags)


def _refuse_unreached(emit: Sequence[str], stop: str | None) -> None:
    """A level that lies behind `--stop-after` has no text to print."""
    unreached = [level for level in emit if stop is not None and LEVELS.index(level) > LEVELS.index(stop)]
    if unreached:
        raise click.UsageError(f"--emit {unreached[0]}: the build stops after {stop}")


def _refuse_build_flags(ctx: click.Context) -> None:
    """A folder is built already: flags that would change the build are a mistake, not a wish to be ignored."""
    own = {"model", "inputs", "checked", "expect", "save", "as_json", "form", "weights"}
    own |= {"out", "level"} if ctx.command.name == "export" else set()
    command = click.core.ParameterSource.COMMANDLINE
    given = [
        p for p in ctx.command.params if p.name not in own and p.name and ctx.get_parameter_source(p.name) is command
    ]
    if given:
        raise click.UsageError(
            f"{', '.join(p.opts[-1] for p in given)}: a build folder is built already; give the model file"
        )


# ---- what is shown -------------------------------------------------------------------------------


def _show_builds(done: Any, emit: Sequence[str], as_json: bool) -> int:
    """`done` is a list of Outcome: a build, or why there is none."""
    from .compiler.build.command import build_document, build_text

    diagnostics = [d for outcome in done for d in outcome.diagnostics]
    if as_json:
        return _document(build_document(done, emit, _as_json), _code(diagnostics))
    code = _told(diagnostics, as_json=False)
    if text := build_text(done, emit, _width()):
        click.echo(text)
    return code


def _show_run(done: Any, as_json: bool) -> int:
    from .compiler.build.command import run_document, run_text

    if as_json:
        return _document(run_document(done, _as_json), _code(done.diagnostics))
    if text := run_text(done, _width()):
        click.echo(text)
    return _told(done.diagnostics, as_json=False)


def _show_runs(done: Any, as_json: bool) -> int:
    """`done` is a list of RunOutcome: a run, or the DiagnosticError that says why there is none."""
    from .compiler.build.command import runs_document, runs_text

    diagnostics = [d for outcome in done for d in outcome.diagnostics]
    if as_json:
        return _document(runs_document(done, _as_json), _code(diagnostics))
    if text := runs_text(done, _width()):
        click.echo(text)
    return _told(diagnostics, as_json=False)


def _printed(text: str) -> int:
    click.echo(text)
    return OK


def _document(value: Mapping[str, Any], code: int = OK) -> int:
    """The one JSON document of a command."""
    import json

    click.echo(json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False))
    return code


def _told(
    diagnostics: Iterable[Diagnostic], as_json: bool, code: int | None = None, empty_document: bool = False
) -> int:
    """Show `diagnostics` and give the exit code that they ask for."""
    found = list(diagnostics)
    code = _code(found) if code is None else code
    if as_json and (found or empty_document):
        return _document({"diagnostics": _as_json(found)}, code)
    if found and not as_json:
        from .compiler.source import render_all

        click.echo(_coloured(render_all(found)), err=True)
    return code


def _as_json(diagnostics: Iterable[Diagnostic]) -> list[dict[str, object]]:
    from .compiler.source import to_json

    return [to_json(d) for d in diagnostics]


def _code(diagnostics: Iterable[Diagnostic]) -> int:
    """The exit code: wrong numbers and what does not fit have their own."""
    errors = [d.code for d in diagnostics if d.severity == "error"]
    if not errors:
        return OK
    if all(code.startswith("E08") for code in errors):
        return WRONG_NUMBERS
    return NO_FIT if all(code.startswith("E04") for code in errors) else DIAGNOSTICS


def _diagnostic(code: str, message: str, help: str | None = None) -> Diagnostic:
    from .compiler.source import Diagnostic

    return Diagnostic(code, message, help=help)


def _wants_json(args: Sequence[str]) -> bool:
    """Whether `--json` was asked for, before flags are parsed: a usage error needs to know."""
    return "--json" in args or "--format=json" in args or ("--format", "json") in pairwise(args)


def _usage(error: click.UsageError, as_json: bool) -> int:
    if as_json:
        help = error.ctx.get_usage() if error.ctx else None
        return _told([_diagnostic("E0708", error.format_message(), help)], True, USAGE)
    error.show()
    return USAGE


def _crashed(error: Exception, args: Sequence[str], as_json: bool) -> int:
    from .compiler.build.crash import write_bundle

    where = write_bundle(error, args)
    said = f"tdslc failed: {type(error).__name__}; what happened is in {where}"
    return _told(
        [_diagnostic("E0709", said, "this is a fault of tdslc: please report it with that folder")], as_json, INTERNAL
    )


def _width() -> int:
    import shutil

    return max(shutil.get_terminal_size((_DEFAULT_WIDTH, 24)).columns, 40)


def _fancy() -> bool:
    """Whether stderr is a terminal that wants colour and a line that changes."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") != "dumb"


def _coloured(text: str) -> str:
    if not _fancy():
        return text
    colours = {"error": "red", "warning": "yellow", "note": "cyan"}
    return "\n".join(_coloured_line(line, colours) for line in text.split("\n"))


def _coloured_line(line: str, colours: Mapping[str, str]) -> str:
    head, _, rest = line.partition("[")
    return click.style(head, fg=colours[head], bold=True) + "[" + rest if head in colours and rest else line


class _Progress:
    """The phase under way, on stderr when that is a terminal, once a command has taken more than a second."""

    def __init__(self, as_json: bool) -> None:
        self.shown = sys.stderr.isatty() and os.environ.get("TERM", "") != "dumb"
        self.phase, self.late, self.timer = "", False, None

    def __enter__(self) -> Callable[[str], None]:
        if self.shown:
            import threading

            self.timer = threading.Timer(_PATIENCE_SECONDS, self._become_late)
            self.timer.daemon = True
            self.timer.start()
        return self.tell

    def __exit__(self, *_: object) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self.late:
            self._line("")

    def tell(self, phase: str) -> None:
        self.phase = phase
        if self.late:
            self._line(f"{phase} ...")

    def _become_late(self) -> None:
        self.late = True
        self.tell(self.phase)

    def _line(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
