# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Styles for linear layers of transformers that are stored in another way: Conv1D, and several projections in one layer."""

import torch
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard

import tandem

from ._parallel import ColwiseParallel, RowwiseParallel, SharedColumns, _Linear, _replica


class _OfConv1D(_Linear):
    """For transformers' Conv1D, whose weight is [in, out]."""

    parts = 1

    def placement(self, module, key):
        return Shard(1 - self.weight_placement.dim) if key == "weight" else self.bias_placement

    def _check(self, module, mesh):
        features = module.nf if isinstance(self, ColwiseParallel) else module.nx
        if "forward" in vars(module) or any(type(one) not in (nn.Parameter, DTensor) for one in module.parameters()) or \
                features % (mesh.size() * self.parts):
            raise tandem.ArgumentError(f"expected a Conv1D with its own forward, plain parameters and {self.parts} times features that "
                                       f"{mesh.size()} ranks divide, found {module} with {features} features")

    def _apply(self, module, device_mesh):
        self._check(module, device_mesh)
        module.in_features, module.out_features = module.nx, module.nf
        return self._split(module, device_mesh)

    def _transposed(self, module):
        return module.weight.to_local()


class ColumnsOfConv1D(_OfConv1D, ColwiseParallel):
    pass


class RowsOfConv1D(_OfConv1D, RowwiseParallel):
    pass


class PackedColumns(_OfConv1D, SharedColumns):
    """Several projections, one after another: a rank computes its columns of each. All ranks have the whole weight, since torch
    has no placement for such parts from which it can make the whole again."""

    def __init__(self, parts):
        super().__init__(1)
        self.parts = parts

    def placement(self, module, key):
        return Replicate()

    def _mine(self, whole):
        mesh = whole.device_mesh
        return _replica(whole).unflatten(-1, (self.parts, mesh.size(), -1))[..., mesh.get_local_rank(), :].flatten(-2)

    def _transposed(self, module):
        return self._mine(module.weight)

    def _bias(self, module):
        return self._mine(module.bias)


class _MultiQuery(SharedColumns):
    """The queries of all heads, then one key and one value, which all ranks compute. All ranks have the whole weight."""

    def _mine(self, whole):
        mesh, size = whole.device_mesh, whole.shape[0] // (self.groups + 2)
        query, shared = _replica(whole).split([self.groups * size, 2 * size])
        return torch.cat((query.chunk(mesh.size())[mesh.get_local_rank()], shared))

    def _check(self, module, mesh):
        ColwiseParallel._check(self, module, mesh)

    def _transposed(self, module):
        return self._mine(module.weight).t()

    def _bias(self, module):
        return self._mine(module.bias)


def of_falcon(config, ranks):
    if config.multi_query and not config.new_decoder_architecture:
        return _MultiQuery(config.num_attention_heads)
    if config.new_decoder_architecture and config.num_kv_heads % ranks:
        raise tandem.ArgumentError(f"parallelize: falcon: expected num_kv_heads that {ranks} ranks divide, found {config.num_kv_heads}")
    return ColwiseParallel()
