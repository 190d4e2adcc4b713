"""What a Plan means, in NumPy: the load program, then the steps one by one, each kernel through its body.

Equal, bit for bit, to `evaluate` of the graph that was planned; where it is not, the plan is wrong and
not what came before or after. Must not know targets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..graph import Context, Contraction, NDArray, evaluate
from ..graph.evaluate import run_region
from .target import Alias, Kernel, LoopStep, Plan, Step


def evaluate_plan(
    plan: Plan,
    inputs: Mapping[str, NDArray],
    params: Mapping[str, NDArray] | None = None,
    *,
    contraction: Contraction | None = None,
) -> tuple[NDArray, ...]:
    """Outputs of `plan`; `inputs` and `params` are those of the model, by name, of the declared shape and dtype.

    LookupError names a missing one.
    """
    ctx = Context(contraction or Contraction())
    bound = {**(params or {}), **load_values(plan, params or {}, ctx.contraction), **inputs}
    values: dict[int, NDArray] = {}
    for leaf in (*plan.graph.inputs, *plan.graph.params):
        name = str(leaf.attr("name"))
        if name not in bound:
            raise LookupError(f"{leaf.op} {name} has no value bound to it")
        values[leaf.out] = ctx.cast(bound[name], leaf.type.dtype)
    return _run(plan, values, ctx)


def load_values(plan: Plan, params: Mapping[str, NDArray], contraction: Contraction) -> dict[str, NDArray]:
    """What the load program makes of `params`, by name; nothing without one."""
    if plan.load is None:
        return {}
    results = evaluate(plan.load, {}, params, contraction=contraction)
    return dict(zip(plan.load.output_names, results, strict=True))


def _run(plan: Plan, values: dict[int, NDArray], ctx: Context) -> tuple[NDArray, ...]:
    """Outputs of `plan`, whose inputs and params are already among `values`."""
    for step in plan.steps:
        _step(plan, step, values, ctx)
    return tuple(values[v] for v in plan.graph.outputs)


def _step(plan: Plan, step: Step, values: dict[int, NDArray], ctx: Context) -> None:
    match step:
        case Kernel():
            results: Sequence[NDArray] = run_region(step.body, [values[v] for v in step.inputs], ctx)
            values.update(zip(step.outputs, results, strict=True))
        case LoopStep():
            values.update(zip(step.outputs, _loop(plan, step, [values[v] for v in step.inputs], ctx), strict=True))
        case Alias():
            shape = tuple(map(int, plan.graph.types[step.output].shape))
            values[step.output] = values[step.source].reshape(shape)


def _loop(plan: Plan, step: LoopStep, args: Sequence[NDArray], ctx: Context) -> tuple[NDArray, ...]:
    carry, xs = list(args[: step.carry]), args[step.carry : step.carry + step.xs]
    captures = args[step.carry + step.xs :]
    types = [plan.graph.types[v] for v in step.outputs[step.carry :]]
    ys = [np.empty(tuple(map(int, t.shape)), t.dtype.numpy) for t in types]
    given = [n.out for n in step.body.graph.inputs]
    for i in range(step.n):
        operands = (np.asarray(i, np.int32), *carry, *(x[i] for x in xs), *captures)
        outs = _run(step.body, dict(zip(given, operands, strict=True)), ctx)
        carry = list(outs[: step.carry])
        for y, value in zip(ys, outs[step.carry :], strict=True):
            y[i] = value
    return (*carry, *ys)
