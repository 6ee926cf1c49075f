# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each rank of test_titan.py does: models of torchtitan, which its trainer's functions have made parallel, against whole ones."""

import copy
import importlib
import sys
from unittest.mock import MagicMock

import torch
import torch._utils
from layers import _full, close
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn.functional import cross_entropy

import tandem.torch as tt

MODELS = {
    "llama3": ("TransformerModelArgs", "Transformer", "parallelize_llama", {"n_kv_heads": 2, "multiple_of": 16}),
    "deepseek_v3": ("DeepSeekV3ModelArgs", "DeepSeekV3Model", "parallelize_deepseekv3",
                    {"inter_dim": 64, "n_dense_layers": 2, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8}),
}


def titan(rank, ranks, name, recompute, compiles, uses_styles):
    """Logits, loss, gradients, their clipped norm and a step. On 4 ranks two have other samples: FSDP."""
    compiles, uses_styles = compiles == "True", uses_styles == "True"
    torch._utils._get_available_device_type = lambda: "cpu"
    for part in ("datasets", "datasets.distributed", "torch.utils.tensorboard"):  # the trainer's data and metrics
        sys.modules[part] = MagicMock()
    from torch.nn.attention import SDPBackend
    from torchtitan.config import JobConfig
    from torchtitan.distributed import ParallelDims
    from torchtitan.distributed.utils import clip_grad_norm_
    from torchtitan.models.attention import ScaledDotProductAttentionWrapper

    ScaledDotProductAttentionWrapper.sdpa_backends = [SDPBackend.MATH]  # torch's others for CPUs take no DTensors

    arguments, model, parallelize, sizes = MODELS[name]
    models = importlib.import_module(f"torchtitan.models.{name}")
    infra = importlib.import_module(f"torchtitan.models.{name}.infra.parallelize")
    if uses_styles:
        infra.ColwiseParallel, infra.RowwiseParallel = tt.ColwiseParallel, tt.RowwiseParallel
        infra._op_sac_save_list.add(torch.ops.tandem.matmul_reduce_scatter.without_gradient)
    config, dp = JobConfig(), ranks // 2
    config.training.seq_len, config.training.mixed_precision_param = 16, "float32"
    config.activation_checkpoint.mode, config.activation_checkpoint.selective_ac_option = recompute.split("-")
    config.compile.enable, config.compile.backend = compiles, "inductor"
    dims = ParallelDims(dp_replicate=1, dp_shard=dp, cp=1, tp=2, pp=1, ep=1, etp=1, world_size=ranks)
    torch.manual_seed(1)
    made = getattr(models, arguments)(dim=32, n_layers=2, n_heads=4, vocab_size=64, max_seq_len=16, **sizes)
    whole = getattr(models, model)(made)
    with torch.no_grad():
        whole.init_weights(buffer_device=torch.device("cpu"))
    split = getattr(infra, parallelize)(copy.deepcopy(whole), dims, config)
    for module in split.modules():
        if isinstance(module, FSDPModule):
            module.set_force_sum_reduction_for_comms(True)  # gloo cannot divide on the way
    tokens = torch.randint(64, (2 * dp, 17), generator=torch.Generator().manual_seed(2))
    mine = tokens[2 * (rank // 2):][:2]  # of this rank's group of two
    optimizers = [torch.optim.AdamW(one.parameters(), lr=0.01, foreach=True) for one in (whole, split)]
    for step in range(2):
        expected = whole(tokens[:, :-1])
        cross_entropy(expected.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        with loss_parallel(), tt.overlap_compiled() as overlap:
            found = split(mine[:, :-1])
            loss = cross_entropy(found.flatten(0, 1), mine[:, 1:].flatten())
            (loss / dp).backward()  # FSDP adds gradients up
        close(_full(found), expected[2 * (rank // 2):][:2])
        if compiles:
            assert overlap.replaced or uses_styles or step > 0, overlap.skipped
            assert not any(one.startswith(("all-gather", "reduce-scatter")) for one in overlap.skipped), list(overlap.skipped)
        names = dict(whole.named_parameters())
        for key, one in split.named_parameters():
            close(_full(one.grad), names[key.replace("_orig_mod.", "").replace("_checkpoint_wrapped_module.", "")].grad)
        norms = [clip_grad_norm_(one.parameters(), 0.1, foreach=True) for one in (whole, split)]
        close(_full(norms[1]), norms[0])
        for one in optimizers:
            one.step()
            one.zero_grad()
