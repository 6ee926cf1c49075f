# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parameters that no rank has a part of. As replicated DTensors they are in one list with the split ones, for optimizers and
clip_grad_norm_. Modules compute with plain tensors: while a module runs, it has those in the parameters' places."""

from torch import nn
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.distributed.tensor.parallel import ParallelStyle

from ._parallel import _replica, watch


class Replicated(ParallelStyle):
    """The parameters of a module, and of all modules in it, that no other style splits: they become replicated DTensors, so
    that optimizers and `clip_grad_norm_` take them together with split ones. The modules themselves see plain tensors.

    sum_gradients: whether the gradients are summed over the ranks: each rank has other tokens, or other heads. Without, all
    ranks compute the same gradients. `parallelize` applies the style of "", the whole model, last.
    """

    def __init__(self, *, sum_gradients=False):
        super().__init__()
        self.sum_gradients = sum_gradients

    def _apply(self, module, device_mesh):
        made = {}  # id -> (the parameter, what it becomes), also for all names of a tied one
        for part in module.modules():
            for key, value in part._parameters.items() if _is_replaceable(part) else ():
                if type(value) is nn.Parameter:
                    if id(value) not in made:
                        whole = distribute_tensor(value.detach(), device_mesh, [Replicate()], src_data_rank=self.src_data_rank)
                        made[id(value)] = value, nn.Parameter(whole, requires_grad=value.requires_grad)
                    part._parameters[key] = made[id(value)][1]
        ids = {id(whole) for _, whole in made.values()}
        for part in module.modules():
            places = [(one, key) for one in part.modules() for key, value in one._parameters.items() if id(value) in ids]
            if places:
                locally = _Locally(places, self.sum_gradients)
                part.register_forward_pre_hook(locally.before, with_kwargs=True)
                part.register_forward_hook(locally.after, always_call=True)
        return module


def _is_replaceable(module):
    """Not of RNNs, which keep their parameters in a second place, and not for sparse gradients, which DTensors cannot be."""
    return type(module).__setattr__ is nn.Module.__setattr__ and getattr(module, "sparse", False) is not True


class _Locally:
    """The hooks of a module."""

    def __init__(self, places, sum_gradients):
        self.places, self.sum_gradients = places, sum_gradients  # (a module, the name of its parameter)
        self.calls: list = []  # of each call that runs: what it has replaced

    def before(self, module, args, kwargs):
        replaced, made = [], {}
        if any(isinstance(one, DTensor) for one in (*args, *kwargs.values())):  # it computes with DTensors
            if self.sum_gradients:
                watch(module)
        else:
            for part, key in self.places:
                whole = part._parameters.get(key)
                # Not if a module around this one has done so, or FSDP has taken it apart.
                if isinstance(whole, DTensor) and whole.placements == (Replicate(),):
                    if id(whole) not in made:  # tied ones stay so
                        made[id(whole)] = _replica(whole, self.sum_gradients)
                    part._parameters[key] = made[id(whole)]
                    replaced.append((part, key, whole, made[id(whole)]))
        self.calls.append(replaced)

    def after(self, module, args, result):
        for part, key, whole, local in self.calls.pop() if self.calls else ():
            if part._parameters.get(key) is local:
                part._parameters[key] = whole
