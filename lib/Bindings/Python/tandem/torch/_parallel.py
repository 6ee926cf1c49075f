# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Styles for torch.distributed.tensor.parallel.parallelize_module, and plans for models with usual names."""

import copy
import fnmatch
import types

import torch
from torch import nn
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ParallelStyle, SequenceParallel, parallelize_module

import tandem

from . import _ops

# Names of linear layers and norms in Llama, GPT and their relatives (transformers, torchtitan, nanoGPT).
# Layers that hold several projections one after another (qkv_proj, gate_up_proj) are not among them: a rank would get
# columns of one projection only.
_COLUMNS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "wq", "wk", "wv", "w1", "w3", "c_fc", "fc1",
            "dense_h_to_4h")
_ROWS = ("o_proj", "down_proj", "wo", "w2", "c_proj", "fc2", "dense_4h_to_h", "out_proj")
_NORMS = ("*norm*", "ln_*")


class _Linear(ParallelStyle):
    """A linear layer whose weight is split over a mesh of one dimension."""

    weight_placement = None  # of the weight [out, in]
    bias_placement = None

    def __init__(self, *, input_layouts, output_layouts, use_local_output):
        super().__init__()
        self.input_layout, self.output_layout = input_layouts, output_layouts
        self.use_local_output = use_local_output

    def _apply(self, module, device_mesh):
        name = type(self).__name__
        if not isinstance(module, nn.Linear):
            raise tandem.ArgumentError(f"{name}: expected a torch.nn.Linear, found {type(module).__name__}")
        if device_mesh.ndim != 1:
            raise tandem.ArgumentError(f"{name}: expected a mesh of one dimension, such as mesh[\"tp\"], found {device_mesh}")
        features = module.weight.shape[self.weight_placement.dim]
        if features % device_mesh.size():
            raise tandem.ArgumentError(f"{name}: expected features that {device_mesh.size()} ranks divide, found {features}")
        for key, placement in (("weight", self.weight_placement), ("bias", self.bias_placement)):
            value = getattr(module, key)
            if value is not None and not isinstance(value, DTensor):
                split = distribute_tensor(value, device_mesh, [placement], src_data_rank=self.src_data_rank)
                module.register_parameter(key, nn.Parameter(split, requires_grad=value.requires_grad))
        module._tandem_style, module._tandem_mesh = self, device_mesh
        module.forward = types.MethodType(_forward, module)
        return module

    def _local(self, x, mesh):
        """(this rank's part of an input, its placement, its global shape or None)."""
        if not isinstance(x, DTensor):
            return x, self.input_layout, None
        if x.placements != (self.input_layout,):
            x = x.redistribute(mesh, [self.input_layout])
        return x.to_local(), self.input_layout, x.shape

    def _made(self, y, mesh, shape=None):
        if self.use_local_output:
            return y
        if shape is None:
            return DTensor.from_local(y, mesh, [self.output_layout], run_check=False)
        stride = [1] * len(shape)
        for dim in range(len(shape) - 2, -1, -1):
            stride[dim] = stride[dim + 1] * shape[dim + 1]
        return DTensor.from_local(y, mesh, [self.output_layout], run_check=False, shape=torch.Size(shape),
                                  stride=tuple(stride))


class _Transpose(torch.autograd.Function):
    """weight.to_local().t() of a DTensor, whose gradient is split as it is: much quicker than to_local's backward."""

    @staticmethod
    def forward(ctx, weight):
        ctx.spec = weight._spec
        return weight._local_tensor.t()

    @staticmethod
    def backward(ctx, grad):
        return DTensor(grad.t(), ctx.spec, requires_grad=False)


def _transpose(weight):
    return weight.to_local().t() if torch.compiler.is_compiling() else _Transpose.apply(weight)


def _forward(module, x):
    return module._tandem_style._run(module, x)


def _dim(placement, x):
    return placement.dim % x.dim()


class ColwiseParallel(_Linear):
    """Column-parallel linear layer, a drop-in for torch's ColwiseParallel: each rank has some of the outputs.

    input_layouts: Shard(d), sequence parallelism: the gather along dimension d is hidden behind the product; or
    Replicate(): in the backward pass the sum of the input's gradient is. output_layouts: Shard(-1).

    Linear layers of one module with the same input (q, k, v; gate, up) share one gather: see `parallelize`.
    """

    weight_placement, bias_placement = Shard(0), Shard(0)

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output=True):
        super().__init__(input_layouts=input_layouts or Replicate(), output_layouts=output_layouts or Shard(-1),
                         use_local_output=use_local_output)
        if not isinstance(self.input_layout, (Shard, Replicate)) or self.output_layout != Shard(-1):
            raise tandem.ArgumentError("ColwiseParallel: expected input_layouts Shard(d) or Replicate() and output_layouts "
                                       f"Shard(-1), found {self.input_layout} and {self.output_layout}")
        self.siblings = None

    def _run(self, module, x):
        if self.siblings is not None and (y := self.siblings.take(module, x)) is not None:
            return y
        return self._products([module], x)[0]

    def _products(self, modules, x):
        mesh = modules[0]._tandem_mesh
        group = mesh.get_group().group_name
        local, layout, shape = self._local(x, mesh)
        weights = [_transpose(module.weight) for module in modules]
        if isinstance(layout, Shard):
            dim = _dim(layout, local)
            tokens = None if shape is None else shape[dim]
            products = _ops.all_gather_matmul(local, weights, dim, group, tokens)
        else:
            products = _ops.column_parallel(local, weights, group)
        made = []
        for module, y in zip(modules, products):
            if module.bias is not None:
                y = y + module.bias.to_local().to(y.dtype)  # they differ under autocast
            made.append(self._made(y, mesh, (*y.shape[:-1], module.out_features)))
        return made


class RowwiseParallel(_Linear):
    """Row-parallel linear layer, a drop-in for torch's RowwiseParallel: each rank has some of the inputs.

    input_layouts: Shard(-1). output_layouts: Shard(d), sequence parallelism: a reduce-scatter along dimension d hidden
    behind the product; or Replicate(): an all-reduce.
    """

    weight_placement, bias_placement = Shard(1), Replicate()

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output=True):
        super().__init__(input_layouts=input_layouts or Shard(-1), output_layouts=output_layouts or Replicate(),
                         use_local_output=use_local_output)
        if self.input_layout != Shard(-1) or not isinstance(self.output_layout, (Shard, Replicate)):
            raise tandem.ArgumentError("RowwiseParallel: expected input_layouts Shard(-1) and output_layouts Shard(d) or "
                                       f"Replicate(), found {self.input_layout} and {self.output_layout}")

    def _local(self, x, mesh):
        if isinstance(x, DTensor) and x.placements == (Shard(x.ndim - 1),):
            return x.to_local(), self.input_layout, x.shape
        return super()._local(x, mesh)

    def _run(self, module, x):
        mesh = module._tandem_mesh
        group = mesh.get_group().group_name
        local, _, _ = self._local(x, mesh)
        weight = _transpose(module.weight)
        if isinstance(self.output_layout, Shard):
            dim = _dim(self.output_layout, local)
            if self.use_local_output and local.shape[dim] % mesh.size():
                # The next layer could not tell how many tokens there are.
                raise tandem.ArgumentError(f"RowwiseParallel: expected a number of tokens that {mesh.size()} ranks divide, "
                                           f"or use_local_output=False, found {local.shape[dim]}")
            y = _ops.matmul_reduce_scatter(local, weight, dim, group)
        else:
            y = _ops.matmul_all_reduce(local, weight, group)
        if module.bias is not None:
            # Each rank adds it to its own rows.
            partial = [Partial()] if isinstance(self.output_layout, Shard) else None
            y = y + module.bias.to_local(grad_placements=partial).to(y.dtype)
        return self._made(y, mesh, (*local.shape[:-1], module.out_features))


class _Siblings:
    """Linear layers of one module that are called with the same input: the first call computes all of them. If some
    were then not called with it, each is computed by itself from then on."""

    def __init__(self, modules):
        self.modules, self.input, self.version, self.made = modules, None, None, {}

    def take(self, module, x):
        if self.modules is None or torch.compiler.is_compiling():
            return None  # in compiled code CollectiveMatmulPass merges the gathers
        if self.made:
            if x is self.input and _version(x) == self.version and module in self.made:
                y = self.made.pop(module)
                if not self.made:
                    self.input = None
                return y
            self.modules, self.input, self.made = None, None, {}
            return None
        style = module._tandem_style
        self.made = dict(zip(self.modules, style._products(self.modules, x)))
        y = self.made.pop(module)
        self.input, self.version = x, _version(x)
        return y


def _version(x):
    """Changes if x does; not known for tensors of inference mode."""
    return None if x.is_inference() else x._version


def plan(module, sequence_dim=0):
    """The plan that `parallelize` uses for a model with usual names: {"layers.0.self_attn.q_proj": ColwiseParallel, ..}.
    Norms work on this rank's tokens (torch's SequenceParallel)."""
    made = {}
    tokens = None if sequence_dim is None else Shard(sequence_dim)
    for name, part in module.named_modules():
        last = name.rpartition(".")[2]
        if isinstance(part, nn.Linear) and last in _COLUMNS:
            made[name] = ColwiseParallel(input_layouts=tokens)
        elif isinstance(part, nn.Linear) and last in _ROWS:
            made[name] = RowwiseParallel(output_layouts=tokens)
        elif tokens and any(fnmatch.fnmatch(last.lower(), pattern) for pattern in _NORMS) and not list(part.children()):
            made[name] = SequenceParallel(sequence_dim=sequence_dim, use_local_output=True)
    # A row-parallel layer needs a column-parallel one that feeds it.
    parents = {name.rpartition(".")[0] for name, style in made.items() if isinstance(style, ColwiseParallel)}
    return {name: style for name, style in made.items()
            if not isinstance(style, RowwiseParallel) or name.rpartition(".")[0] in parents}


def parallelize(module, mesh, parallelize_plan=None, *, sequence_dim=0, src_data_rank=0):
    """Makes a model tensor-parallel, with communication hidden behind its matmuls; returns it.

    mesh: a torch DeviceMesh of one dimension. parallelize_plan: as of torch's parallelize_module, with the styles of
    this package or of torch; None: `plan(module, sequence_dim)`. sequence_dim: the dimension of the activations along
    which tokens are split between the layers (sequence parallelism): each rank passes its own tokens to the model, and
    gets its own back. None: every rank has all tokens. src_data_rank: the rank whose weights are split, as for torch;
    None: each rank splits its own, which are the same on all ranks.

    Column-parallel layers of one module with one input (q, k, v; gate, up) share one gather.
    Raises tandem.ArgumentError if no layer is found.
    """
    chosen = plan(module, sequence_dim) if parallelize_plan is None else dict(parallelize_plan)
    if not chosen:
        raise tandem.ArgumentError("parallelize: expected linear layers with names such as q_proj, gate_proj or down_proj, "
                                   "found none: give a plan")
    if not any(isinstance(style, _Linear) for style in chosen.values()):
        raise tandem.ArgumentError("parallelize: expected a ColwiseParallel or RowwiseParallel of this package in the plan")
    module = parallelize_module(module, mesh, chosen, src_data_rank=src_data_rank)
    parents = {}
    for name, part in module.named_modules():
        style = getattr(part, "_tandem_style", None)
        if isinstance(style, ColwiseParallel):
            key = name.rpartition(".")[0], style.input_layout, style.use_local_output, part.in_features
            parents.setdefault(key, []).append(part)
    for parts in parents.values():
        if len(parts) > 1:
            siblings = _Siblings(parts)
            for part in parts:
                part._tandem_style = copy.copy(part._tandem_style)  # one style may be that of several layers
                part._tandem_style.siblings = siblings
    return module
