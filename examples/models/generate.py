# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generates tokens with a Llama of transformers whose layers are split over ranks; they are those of the whole model.

  torchrun --nproc-per-node 4 examples/models/generate.py          # on CPUs; with --device cuda on GPUs
"""

import argparse
import copy

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from transformers import LlamaConfig, LlamaForCausalLM

import tandem.torch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--tokens", type=int, default=16)
    args = parser.parse_args()
    dist.init_process_group("nccl" if args.device == "cuda" else "gloo")
    if args.device == "cuda":
        torch.cuda.set_device(dist.get_node_local_rank())

    torch.manual_seed(0)
    whole = LlamaForCausalLM(LlamaConfig(hidden_size=64, intermediate_size=160, num_attention_heads=8, num_key_value_heads=4,
                                         num_hidden_layers=3, vocab_size=256)).to(args.device).eval()
    split = copy.deepcopy(whole)
    # With few tokens at a time each rank has all of them, and all-reduces are overlapped.
    tandem.torch.parallelize(split, init_device_mesh(args.device, (dist.get_world_size(),)), sequence_dim=None)

    prompts = torch.randint(1, 256, (2, 9), device=args.device)
    options = {"max_new_tokens": args.tokens, "do_sample": False, "pad_token_id": 0}
    found, expected = (model.generate(prompts, **options) for model in (split, whole))
    if dist.get_rank() == 0:
        print(found[:, prompts.shape[1]:].tolist())
    assert torch.equal(found, expected), f"expected the tokens of the whole model, {expected.tolist()}, found {found.tolist()}"
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
