"""Graph: types and dims, the op table, the SSA graph, its text form, verifier and evaluator.

Every other room reads this one. It must not know languages, egglog or targets.
"""

from .build import Builder, InferError, expand, infer, is_composite
from .composite import NO_COMPOSITES, Composite, Composites
from .dtypes import DTYPES, DType, dtype
from .evaluate import evaluate
from .graph import Array, Attr, Attrs, Graph, Node, attr_key, live, make_attrs, renumber
from .ops import LEAVES, OPS, Context, Contraction, NDArray, Op
from .text import GraphTextError, parse, show
from .types import Dim, TensorType, show_dim
from .verify import verify

__all__ = [
    "DTYPES",
    "LEAVES",
    "NO_COMPOSITES",
    "OPS",
    "Array",
    "Attr",
    "Attrs",
    "Builder",
    "Composite",
    "Composites",
    "Context",
    "Contraction",
    "DType",
    "Dim",
    "Graph",
    "GraphTextError",
    "InferError",
    "NDArray",
    "Node",
    "Op",
    "TensorType",
    "attr_key",
    "dtype",
    "evaluate",
    "expand",
    "infer",
    "is_composite",
    "live",
    "make_attrs",
    "parse",
    "renumber",
    "show",
    "show_dim",
    "verify",
]
