# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fine-tunes a Llama of transformers with LoRA, split over ranks; the losses are those of the whole model.

  torchrun --nproc-per-node 4 examples/models/finetune.py          # on CPUs; with --device cuda on GPUs
"""

import argparse
import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from transformers import LlamaConfig, LlamaForCausalLM

import tandem.torch


class LoRA(nn.Module):
    """As peft's layers are, which take its place: `peft.get_peft_model(model, peft.LoraConfig(...))`."""

    def __init__(self, base, rank=4):
        super().__init__()
        self.base_layer = base.requires_grad_(False)
        self.lora_A = nn.ModuleDict({"default": nn.Linear(base.in_features, rank, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(rank, base.out_features, bias=False)})
        nn.init.zeros_(self.lora_B["default"].weight)

    def forward(self, x):
        return self.base_layer(x) + self.lora_B["default"](self.lora_A["default"](x))


def losses(model, batches):
    """Of a step for each batch."""
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-2)
    made = []
    for ids in batches:
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        made.append(loss.item())
    return torch.tensor(made)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()
    dist.init_process_group("nccl" if args.device == "cuda" else "gloo")
    if args.device == "cuda":
        torch.cuda.set_device(dist.get_node_local_rank())

    torch.manual_seed(0)
    whole = LlamaForCausalLM(LlamaConfig(hidden_size=64, intermediate_size=160, num_attention_heads=8, num_key_value_heads=4,
                                         num_hidden_layers=2, vocab_size=64)).requires_grad_(False)
    for layer in whole.model.layers:
        for name in ("q_proj", "v_proj"):
            setattr(layer.self_attn, name, LoRA(getattr(layer.self_attn, name)))
    whole.to(args.device)
    split = copy.deepcopy(whole)
    tandem.torch.parallelize(split, init_device_mesh(args.device, (dist.get_world_size(),)))

    batch = torch.randint(0, 64, (4, 24), device=args.device)  # learned by heart
    found, expected = (losses(model, [batch] * args.steps) for model in (split, whole))
    if dist.get_rank() == 0:
        print("\n".join(f"step {step}: loss {loss:.4f}" for step, loss in enumerate(found)))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    assert found[-1] < found[0], "expected the loss to fall"
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
