# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models of transformers (docs/models.md). TANDEM_ALL_MODELS=1, as `tools/dev models` sets it: all of them, on 2 and 4 ranks."""

import os

import models
import pytest
from ranks import run

ALL = bool(os.environ.get("TANDEM_ALL_MODELS"))
#: A decoder, key heads that ranks share, norms of heads, packed projections, experts, an encoder, a pair, images, Conv1D, terms for
#: positions per head.
FEW = [("llama", 2), ("qwen2", 4), ("qwen3", 2), ("phi3", 2), ("mixtral", 2), ("bert", 2), ("whisper", 2), ("vit", 2),
       ("gpt2", 2), ("t5", 4), ("qwen2 with adapters", 4), ("mixtral one by one over ranks", 2), ("qwen2 with split logits", 2),
       ("llama with peft after", 2)]
ADAPTED = [f"{kind} with adapters" for kind in ("llama", "qwen2", "qwen3", "phi3", "bert", "whisper", "t5", "mixtral")]
OVER_RANKS = [f"{kind} over ranks" for kind in ("mixtral", "mixtral one by one", "qwen2_moe", "qwen3_moe", "deepseek_v3", "gpt_oss")]
SPLIT_LOGITS = [f"{kind} with split logits" for kind in ("llama", "starcoder2", "gemma2", "gpt2", "t5", "whisper", "mixtral")]
PEFT = [f"{kind} with peft {when}" for kind in ("llama", "qwen3", "bert", "t5", "mixtral") for when in ("after", "first")]
CASES = [(kind, ranks) for kind in [*models.MODELS, *ADAPTED] for ranks in (2, 4)] + \
        [(kind, 2 + 2 * (number % 2)) for number, kind in enumerate([*OVER_RANKS, *SPLIT_LOGITS, *PEFT])]


@pytest.mark.parametrize("dim", [None, 1])
@pytest.mark.parametrize("kind, ranks", CASES if ALL else FEW)
def test_model(kind, ranks, dim):
    run("of_transformers", ranks, kind, dim)


@pytest.mark.parametrize("dim", [None, 1])
@pytest.mark.parametrize("kind", models.REFUSED if ALL else ["mamba"])
def test_refused(kind, dim):
    run("refused_model", 2, kind, dim)


def test_heads():
    run("heads_of_model", 4)


@pytest.mark.parametrize("dim", [None, 1])
def test_sharded(dim):
    run("sharded_model", 4, "qwen3", dim)
