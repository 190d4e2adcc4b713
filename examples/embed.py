"""Which sentences mean nearly the same: embeds them with minilm.tdsl and prints the nearest of each.

The encoder runs on a simulated chip, by default a TPU v5e. Besides tdslc it needs one package, and the weights:

    pip install tokenizers
    python examples/fetch_minilm.py                            # once: the trained weights, 83 MB
    python examples/embed.py "My knee hurts." "Jupiter has many moons." "Pain in the knee after jogging"
    python examples/embed.py < sentences.txt                   # one sentence a line
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import tdslc
from numpy.typing import NDArray

HERE = Path(__file__).parent
LONGEST_TOKENS = 256  # max_seq_length of the published sentence_bert_config.json


def tokenise(sentences: list[str], weights: Path) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """ids and mask, each [sentences, tokens of the longest]; what exceeds LONGEST_TOKENS is cut, with a note."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise SystemExit("embed: the package tokenizers is not installed; run: pip install tokenizers") from None
    tokenizer = Tokenizer.from_file(str(weights / "tokenizer.json"))
    tokenizer.enable_truncation(LONGEST_TOKENS)
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch(sentences)
    for sentence, tokens in zip(sentences, encoded, strict=True):
        if tokens.overflowing:
            print(f"note: cut to {LONGEST_TOKENS} tokens: {sentence[:60]}...", file=sys.stderr)
    ids = np.array([tokens.ids for tokens in encoded], np.int32)
    mask = np.array([tokens.attention_mask for tokens in encoded], np.bool_)
    return ids, mask


def embed(sentences: list[str], weights: Path, target: str) -> NDArray[np.float32]:
    """Vectors of length 1, f32[sentences, 384]."""
    ids, mask = tokenise(sentences, weights)
    result = tdslc.run(
        HERE / "minilm.tdsl",
        target=target,
        weights=weights / "model.safetensors",
        dims={"B": ids.shape[0], "S": ids.shape[1]},
        inputs={"ids": ids, "mask": mask},
    )
    (embeddings,) = result.outputs.values()
    return embeddings


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Prints the nearest neighbour in meaning of each sentence.")
    parser.add_argument("sentences", nargs="*", help="two or more; without any, the lines of standard input are read")
    parser.add_argument(
        "--weights",
        type=Path,
        default=HERE / "minilm-weights",
        help="the folder fetch_minilm.py filled (default: %(default)s)",
    )
    parser.add_argument("--target", default="mxu:v5e", help="the chip (default: %(default)s)")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    if missing := [name for name in ("model.safetensors", "tokenizer.json") if not (options.weights / name).is_file()]:
        fetch = f"python {HERE / 'fetch_minilm.py'} {options.weights}"
        raise SystemExit(f"embed: no {' and no '.join(missing)} in {options.weights}; run: {fetch}")
    sentences = [line.strip() for line in options.sentences or sys.stdin if line.strip()]
    if len(sentences) < 2:
        raise SystemExit("embed: give two sentences or more")
    embeddings = embed(sentences, options.weights, options.target)
    cosine = embeddings @ embeddings.T
    np.fill_diagonal(cosine, -np.inf)
    for row, sentence in enumerate(sentences):
        nearest = int(cosine[row].argmax())
        print(f"{sentence}\n  {cosine[row, nearest]:.3f}  {sentences[nearest]}")


if __name__ == "__main__":
    main()
