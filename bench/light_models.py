"""The nine light models of the onnx wheel, with seeded random weights instead of their one constant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

NAMES = (
    "bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "vgg19",
    "zfnet512",
)  # fmt: skip
SEED = 0


def with_random_weights(name: str) -> tuple[bytes, dict[str, Any]]:
    """The model's bytes, and a random image for it.

    Weights of a layer have a deviation of sqrt(2 / fan in), which keeps values of one size from layer to layer (He et
    al. 2015); scales and variances lie within 0.5 and 1.5, biases and means about 0. What a softmax takes in is made an
    output too, the last: where sums grow from block to block, the softmax itself has but one class to say.
    """
    import onnx
    from onnx import numpy_helper

    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    model = onnx.load(str(folder / f"light_{name}.onnx"))
    graph = model.graph
    rng = np.random.default_rng(SEED)
    shapes = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    shapes |= {n.output[0]: numpy_helper.to_array(n.attribute[0].t) for n in graph.node if n.op_type == "Constant"}
    scales = {n.input[k] for n in graph.node if n.op_type == "BatchNormalization" for k in (1, 4)}
    kept: list[Any] = []
    for n in graph.node:
        if n.op_type != "ConstantOfShape" or n.input[0] not in shapes:
            kept.append(n)
            continue
        weight = _drawn(rng, tuple(shapes[n.input[0]].tolist()), n.output[0] in scales)
        graph.initializer.append(numpy_helper.from_array(weight, n.output[0]))
    del graph.node[:]
    graph.node.extend(kept)
    graph.output.extend(onnx.ValueInfoProto(name=n.input[0]) for n in kept if n.op_type == "Softmax")
    own = {t.name for t in graph.initializer}
    (image,) = (i for i in graph.input if i.name not in own)
    shape = [d.dim_value for d in image.type.tensor_type.shape.dim]
    return model.SerializeToString(), {image.name: 0.5 * rng.standard_normal(shape).astype(np.float32)}


def _drawn(rng: np.random.Generator, shape: tuple[int, ...], scale: bool) -> Any:
    if scale:
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    deviation = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.1
    return (deviation * rng.standard_normal(shape)).astype(np.float32)
