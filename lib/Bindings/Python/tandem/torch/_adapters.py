# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""peft's adapters that are added to a model after `parallelize`: get_peft_model puts a layer with adapters in the place of a split
one. They are split when it does so, before an optimizer can hold them."""

import copy

from torch import nn
from torch.distributed.tensor import DTensor, Shard

import tandem

from ._packed import _OfConv1D
from ._parallel import ColwiseParallel, Embedding, Linear, _OnTokens, adapters_of
from ._replicated import Replicated, _Locally


def _on_registration(parent, key, module):
    """torch calls it for each module that becomes part of another one."""
    if name := vars(parent).get("_tandem_adapters_of"):
        raise tandem.ArgumentError(f"layer {name}: expected no further adapter of a split model, found {key}: add all before parallelize, "
                                   "or by one get_peft_model after it")
    parts = getattr(module, "_modules", None)  # not a dict for modules of TorchScript
    base = parts.get("base_layer") if isinstance(parts, dict) else None
    if base is None or all(isinstance(one, DTensor) for one in module.parameters()):
        return
    hooks = [getattr(hook, "__self__", None) for hook in base._forward_pre_hooks.values()]
    if isinstance(base, Linear):
        _split(module, base)
    elif replicated := [hook for hook in hooks if type(hook) is _Locally and any(part is base for part, _ in hook.places)]:
        mesh = next(base.parameters()).device_mesh
        Replicated(sum_gradients=replicated[0].sum_gradients)._apply(module, mesh)
        close(module, key)
    elif isinstance(base, Embedding) or any(type(hook).__module__.startswith("tandem.") for hook in hooks):
        raise tandem.ArgumentError(f"layer {key}: expected adapters of linear layers, found {type(module).__name__} around a split "
                                   f"{type(base).__name__}: leave it out of the adapters' target_modules")


def _split(module, base):
    style, mesh = base._tandem_style, base.weight.device_mesh
    adapters, problem = adapters_of(module)
    if problem or isinstance(style, _OfConv1D):
        raise tandem.ArgumentError(f"layer {base._tandem_name}: expected a linear layer with peft's LoRA, found "
                                   f"{problem or 'several projections in one layer'}: leave it out of the adapters' target_modules")
    is_column = isinstance(style, ColwiseParallel)
    sums = isinstance(style.input_layout if is_column else style.output_layout, Shard)  # a rank has its tokens
    for key in ("lora_A", "lora_B"):
        for name in adapters[key]:
            one = copy.copy(style) if (key == "lora_B") == is_column else _OnTokens(sums)
            one.src_data_rank = style.src_data_rank
            one._apply(module.get_submodule(name), mesh)._tandem_name = f"{base._tandem_name}.{name}"
    close(module, base._tandem_name)


def close(layer, name):
    """Lets the layer take no further adapters: peft would initialise them when it has added them, on each rank in another way."""
    for part in layer.children():
        if isinstance(part, nn.ModuleDict):
            part._tandem_adapters_of = name


nn.modules.module.register_module_module_registration_hook(_on_registration)
