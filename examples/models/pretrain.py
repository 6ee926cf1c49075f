# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains blocks of Llama with FSDP and tensor parallelism by Tandem, each over a dimension of a mesh; losses are the whole model's.

  torchrun --nproc-per-node 4 examples/models/pretrain.py          # on CPUs; with --device cuda on GPUs
"""

import argparse
import copy
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

import tandem.torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "llama"))
from model import SHAPES, Llama, rope  # noqa: E402


def split(model, mesh):
    """Each block: its matmuls over "tp", then its parameters over "dp"."""
    tandem.torch.parallelize(model, mesh["tp"])
    for block in (*model.blocks, model):
        fully_shard(block, mesh=mesh["dp"])
    for one in model.modules():
        if isinstance(one, FSDPModule):
            one.set_custom_all_gather(tandem.torch.AllGather())
            one.set_custom_reduce_scatter(tandem.torch.ReduceScatter())
    return model


def losses(model, sequences, table, share, steps):
    """Of each step, the mean over the sequences that this rank has tokens of. share: how much of the loss of all ranks that is."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    made = []
    for _ in range(steps):
        loss = sum(nn.functional.mse_loss(model(x, table), y) for x, y in sequences) / len(sequences)
        (loss * share).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        made.append(loss.detach())
    return torch.stack(made)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--steps", type=int, default=6)
    args = parser.parse_args()
    dist.init_process_group("nccl" if args.device == "cuda" else "gloo")
    if args.device == "cuda":
        torch.cuda.set_device(dist.get_node_local_rank())
    mesh = init_device_mesh(args.device, (dist.get_world_size() // 2, 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(0)
    shape, tokens = SHAPES["tiny"], 32
    whole = Llama(shape, 2).to(args.device)
    table = rope(tokens, shape.head, args.device, torch.float32)
    x, y = torch.randn(2, mesh["dp"].size(), tokens, shape.hidden, device=args.device)  # a sequence for each of "dp"
    expected = losses(copy.deepcopy(whole), list(zip(x, y)), table, 1, args.steps)
    number, part = mesh["dp"].get_local_rank(), mesh["tp"].get_local_rank()
    mine = [(x[number].chunk(2)[part], y[number].chunk(2)[part])]
    # Gradients are summed over "tp", and averaged over "dp".
    found = losses(split(whole, mesh), mine, table, 1 / 2, args.steps)
    dist.all_reduce(found)
    found /= dist.get_world_size()
    if dist.get_rank() == 0:
        print("\n".join(f"step {step}: loss {loss:.4f}" for step, loss in enumerate(found)))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
