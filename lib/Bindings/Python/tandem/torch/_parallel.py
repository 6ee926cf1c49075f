# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Styles for torch.distributed.tensor.parallel.parallelize_module, and plans for models with usual names."""

import fnmatch
import logging
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.tensor.parallel as torch_parallel
from torch import nn
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ParallelStyle, SequenceParallel, parallelize_module

import tandem

from . import _ops
from ._unsupported import check_once, check_transforms

log = logging.getLogger("tandem.torch")

# Names of linear layers and norms in Llama, GPT and their relatives (transformers, torchtitan, nanoGPT).
_COLUMNS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "wq", "wk", "wv", "w1", "w3", "c_fc", "fc1",
            "dense_h_to_4h")
_ROWS = ("o_proj", "down_proj", "wo", "w2", "c_proj", "fc2", "dense_4h_to_h", "out_proj")
_NORMS = ("*norm*", "ln_*")
# Layers that hold several projections one after another: with the styles below, a rank would get columns of one projection.
_PACKED = ("qkv_proj", "gate_up_proj", "query_key_value", "c_attn", "Wqkv", "wqkv", "W_pack", "in_proj")


class Linear(nn.Linear):
    """A linear layer that `ColwiseParallel` or `RowwiseParallel` has split. The styles change the class of a plain
    nn.Linear to this one, so that the layer can be copied, pickled and called like any other."""

    def forward(self, input):
        return _results([self], input, lambda: [self._tandem_style._run(self, input)])[0]


def _results(layers, x, call):
    """call(), the results of split layers. Errors name the layers; a weight that changes before the backward is an error."""
    check_transforms(layers[0]._tandem_name, (x,))  # DTensor's own errors name nothing
    try:
        made = call()
    except tandem.ArgumentError as error:
        raise tandem.ArgumentError(f"layer {', '.join(one._tandem_name for one in layers)}: {error}") from error
    if not torch.is_grad_enabled():
        return made
    return [_unchanged(y, f"layer {one._tandem_name}", one.weight) for y, one in zip(made, layers)]


def _problem(module):
    """Why the weight of an nn.Linear cannot be split, or None."""
    if nn.utils.parametrize.is_parametrized(module):
        kinds = [type(one).__name__ for parts in module.parametrizations.values() for one in parts]
        return f"expected parameters that are tensors, found the parametrization {', '.join(kinds)}: remove it before"
    weight = module._parameters.get("weight")
    if weight is None:
        return "expected a parameter named weight, found none: a hook such as the old weight_norm computes it; remove it before"
    if tuple(weight.shape) != (module.out_features, module.in_features) or not weight.is_floating_point():
        return (f"expected a floating-point weight of shape {(module.out_features, module.in_features)}, found {weight.dtype} "
                f"of shape {tuple(weight.shape)}: quantised layers cannot be split")
    return None


def _is_plain(module):
    """Whether the layer computes F.linear(x, weight, bias) of plain tensors and nothing else."""
    kinds = {type(one._local_tensor if isinstance(one, DTensor) else one) for one in module.parameters(recurse=False)}
    return type(module) in (nn.Linear, Linear) and "forward" not in vars(module) and kinds <= {torch.Tensor, nn.Parameter}


class _Linear(ParallelStyle):
    """A linear layer whose weight is split over a mesh of one dimension."""

    weight_placement: Any = None  # of the weight [out, in]
    bias_placement = None

    def __init__(self, *, input_layouts, output_layouts, use_local_output):
        super().__init__()
        self.input_layout, self.output_layout = input_layouts, output_layouts
        self.use_local_output = use_local_output

    def _apply(self, module, device_mesh):
        self._check(module, device_mesh)
        if not _is_plain(module):
            # LoRA, FP8, fake quantisation, accelerate's hooks, torchao's weights: torch's style calls the layer's own forward.
            log.warning("%s: %s is more than a product of plain tensors, so its communication is not overlapped: torch's style "
                        "splits it", type(self).__name__, type(module).__name__)
            style = self.of_torch(input_layouts=self.input_layout, output_layouts=self.output_layout,
                                  use_local_output=self.use_local_output)
            style.src_data_rank = self.src_data_rank
            return style._apply(module, device_mesh)
        for key, placement in (("weight", self.weight_placement), ("bias", self.bias_placement)):
            value = getattr(module, key)
            if value is not None and not isinstance(value, DTensor):
                split = distribute_tensor(value, device_mesh, [placement], src_data_rank=self.src_data_rank)
                module.register_parameter(key, nn.Parameter(split, requires_grad=value.requires_grad))
        module._tandem_style, module._tandem_name = self, type(self).__name__
        module.__class__ = Linear
        return module

    def _check(self, module, mesh):
        """Raises unless the layer can be split over the mesh. Changes nothing."""
        name = type(self).__name__
        if not isinstance(module, nn.Linear):
            raise tandem.ArgumentError(f"{name}: expected a torch.nn.Linear, found {type(module).__name__}")
        if mesh.ndim != 1:
            raise tandem.ArgumentError(f"{name}: expected a mesh of one dimension, such as mesh[\"tp\"], found {mesh}")
        if problem := _problem(module):
            raise tandem.ArgumentError(f"{name}: {problem}")
        features = module.weight.shape[self.weight_placement.dim]
        if features % mesh.size():
            raise tandem.ArgumentError(f"{name}: expected features that {mesh.size()} ranks divide, found {features}")
        for key, placement in (("weight", self.weight_placement), ("bias", self.bias_placement)):
            value = getattr(module, key)
            if isinstance(value, DTensor) and (value.placements != (placement,) or value.device_mesh != mesh):
                raise tandem.ArgumentError(f"{name}: expected a {key} with placement {placement} on {mesh}, or a plain tensor, "
                                           f"found placements {value.placements} on {value.device_mesh}")

    def _local(self, x, mesh):
        """(this rank's part of an input, its placement, its global shape or None)."""
        if not isinstance(x, DTensor):
            return x, self.input_layout, None
        if x.device_mesh != mesh:
            raise tandem.ArgumentError(f"expected a DTensor on {mesh}, found one on {x.device_mesh}")
        layout = Shard(_dim(self.input_layout, x)) if isinstance(self.input_layout, Shard) else self.input_layout
        if x.placements != (layout,):
            x = x.redistribute(mesh, [layout])
        return x.to_local(), layout, x.shape

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
    """weight.to_local().t() of a DTensor, whose gradient is split as the weight is: much faster than to_local's backward."""

    @staticmethod
    def forward(ctx, weight):
        ctx.spec = weight._spec
        ctx.set_materialize_grads(False)
        return weight._local_tensor.t()

    @staticmethod
    def backward(ctx, grad):
        return None if grad is None else DTensor(grad.t(), ctx.spec, requires_grad=False)


class _Unchanged(torch.autograd.Function):
    """y itself; its backward raises if the layer's weight, the one of a list, was changed in place since. The product has saved
    the local part of the weight, and torch counts changes of the DTensor only."""

    @staticmethod
    def forward(ctx, y, name, weights):
        ctx.mark_dirty(y)
        ctx.name, ctx.weights, ctx.version = name, weights, weights[0]._version
        return y

    @staticmethod
    def backward(ctx, grad):
        if ctx.weights[0]._version != ctx.version:
            raise RuntimeError(f"{ctx.name}: its weight has been modified by an inplace operation since the forward pass")
        return grad, None, None


class _Replica(torch.autograd.Function):
    """whole.to_local() of a replicated DTensor that a rank uses for its own tokens: the gradient is the sum over the ranks."""

    @staticmethod
    def forward(ctx, whole):
        ctx.spec = whole._spec
        return whole._local_tensor.view_as(whole._local_tensor)

    @staticmethod
    def backward(ctx, grad):
        check_once("a linear layer on this rank's tokens")
        total = grad.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=ctx.spec.mesh.get_group())  # functional collectives: 80 us more
        return DTensor(total, ctx.spec, requires_grad=False)


def _unchanged(y, name, weight):
    return _Unchanged.apply(y, name, [weight]) if y.requires_grad and not torch.compiler.is_compiling() else y


def _replica(whole):
    if not torch.is_grad_enabled():
        return whole.to_local()
    if torch.compiler.is_compiling():  # the gradient of redistribute is redistributed
        return whole.redistribute(placements=[Replicate()]).to_local(grad_placements=[Partial()])
    return _Replica.apply(whole)


def _transpose(weight):
    return weight.to_local().t() if torch.compiler.is_compiling() else _Transpose.apply(weight)


def _dim(placement, x):
    return placement.dim % x.dim()


class ColwiseParallel(_Linear):
    """Column-parallel linear layer, a drop-in for torch's ColwiseParallel: each rank has some of the outputs.

    input_layouts: Shard(d), sequence parallelism: the gather along dimension d is hidden behind the product; or
    Replicate(): in the backward pass the sum of the input's gradient is. output_layouts: Shard(-1).

    Each layer gathers its input. `column_linears` computes several layers of one input (q, k, v; gate, up) with one gather.
    """

    of_torch = torch_parallel.ColwiseParallel
    weight_placement, bias_placement = Shard(0), Shard(0)

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output=True):
        super().__init__(input_layouts=input_layouts or Replicate(), output_layouts=output_layouts or Shard(-1),
                         use_local_output=use_local_output)
        if not isinstance(self.input_layout, (Shard, Replicate)) or self.output_layout != Shard(-1):
            raise tandem.ArgumentError("ColwiseParallel: expected input_layouts Shard(d) or Replicate() and output_layouts "
                                       f"Shard(-1), found {self.input_layout} and {self.output_layout}")

    def _run(self, module, x):
        return self._products([module], x)[0]

    def _products(self, modules, x):
        mesh = modules[0].weight.device_mesh
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

    of_torch = torch_parallel.RowwiseParallel
    weight_placement, bias_placement = Shard(1), Replicate()

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output=True):
        super().__init__(input_layouts=input_layouts or Shard(-1), output_layouts=output_layouts or Replicate(),
                         use_local_output=use_local_output)
        if self.input_layout != Shard(-1) or not isinstance(self.output_layout, (Shard, Replicate)):
            raise tandem.ArgumentError("RowwiseParallel: expected input_layouts Shard(-1) and output_layouts Shard(d) or "
                                       f"Replicate(), found {self.input_layout} and {self.output_layout}")

    def _run(self, module, x):
        mesh = module.weight.device_mesh
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
            bias = _replica(module.bias) if isinstance(self.output_layout, Shard) else module.bias.to_local()
            y = y + bias.to(y.dtype)
        return self._made(y, mesh, (*local.shape[:-1], module.out_features))


def column_linears(x, layers):
    """[layer(x) for layer in layers], with one gather of x if ColwiseParallel has split all of them with equal layouts: q, k,
    v or gate, up of one module. So a model can call it before it is split, too.

    Hooks of the layers do not run where they share the gather. Differentiable. Collective. Under torch.compile,
    `overlap_compiled()` merges the gathers of single layers by itself.
    """
    layers = list(layers)
    styles = [one._tandem_style for one in layers if isinstance(one, Linear) and isinstance(one._tandem_style, ColwiseParallel)]
    kinds = {(style.input_layout, style.use_local_output) for style in styles}
    if len(styles) < len(layers) or len(kinds) != 1 or any(one.weight.device_mesh != layers[0].weight.device_mesh for one in layers):
        return [layer(x) for layer in layers]
    return _results(layers, x, lambda: styles[0]._products(layers, x))


class _LocalLinear(nn.Linear):
    """A linear layer on this rank's tokens; its parameters are replicated."""

    def forward(self, input):
        name = "a linear layer on this rank's tokens"
        check_transforms(name, (input,))
        weight, bias = (None if one is None else _replica(one) for one in (self.weight, self.bias))
        return _unchanged(nn.functional.linear(input, weight, bias), name, self.weight)


class _Norm(SequenceParallel):
    """torch's style, but gradients become sums over the ranks. torch leaves terms, and clip_grad_norm_ does not scale those."""

    def _apply(self, module, device_mesh):
        module = super()._apply(module, device_mesh)
        module.register_forward_pre_hook(_watch)
        _watch(module)
        return module


def _watch(module, *_):
    """Before each call, since copies of a module have its hooks, but copies of parameters have none."""
    for one in () if torch.compiler.is_compiling() else module.parameters(recurse=False):
        if isinstance(one, DTensor) and one.is_leaf and one.requires_grad and \
                _add_up not in (one._post_accumulate_grad_hooks or {}).values():
            one.register_post_accumulate_grad_hook(_add_up)


def _add_up(parameter):
    parameter.grad = parameter.grad.redistribute(placements=parameter.placements)


class _OnTokens(ParallelStyle):
    """A linear layer that is not split and works on this rank's tokens: the gradients of its parameters are summed over the
    ranks. torch's SequenceParallel refuses linear layers whose tokens are not the first dimension."""

    def _check(self, module, mesh):
        """Raises unless the layer can be replicated. Changes nothing."""
        if not _is_plain(module):
            raise tandem.ArgumentError("expected a torch.nn.Linear with nn.Linear's forward and plain tensors, found "
                                       f"{type(module).__name__} with others")
        if problem := _problem(module):
            raise tandem.ArgumentError(problem)

    def _apply(self, module, device_mesh):
        self._check(module, device_mesh)
        for key, value in list(module.named_parameters(recurse=False)):
            whole = distribute_tensor(value, device_mesh, [Replicate()], src_data_rank=self.src_data_rank)
            module.register_parameter(key, nn.Parameter(whole, requires_grad=value.requires_grad))
        module.__class__ = _LocalLinear
        return module


class _Plan:
    """Finds the layers of a model by their names."""

    def __init__(self, model, sequence_dim):
        self.tokens = None if sequence_dim is None else Shard(sequence_dim)
        self.styles = {}
        self.unsplit = {}  # name -> what it is: named like a layer that is split, but cannot be
        for name, part in model.named_modules():
            last = name.rpartition(".")[2]
            if last in _COLUMNS or last in _ROWS:
                self._add(name, part, last in _COLUMNS)
            elif last in _PACKED and next(part.parameters(), None) is not None:
                self.unsplit[name] = "several projections in one layer"
            elif self.tokens and any(fnmatch.fnmatch(last.lower(), one) for one in _NORMS) and not list(part.children()):
                self.styles[name] = _Norm(sequence_dim=sequence_dim, use_local_output=True)
        # A row-parallel layer needs a column-parallel one that feeds it.
        parents = {self._parent(name) for name, style in self.styles.items() if isinstance(style, ColwiseParallel)}
        self.styles = {name: style for name, style in self.styles.items()
                       if not isinstance(style, RowwiseParallel) or self._parent(name) in parents}

    @staticmethod
    def _parent(name):
        """The name of the module that has the layer, also for a part of a wrapper (q_proj.base_layer, q_proj.lora_A.default)."""
        parts = name.split(".")
        return ".".join(parts[:max(at for at, one in enumerate(parts) if one in _COLUMNS or one in _ROWS)])

    def _add(self, name, part, is_column):
        if isinstance(part, nn.Linear):
            self.styles[name] = self._style(is_column)
            return
        base = getattr(part, "base_layer", None)
        if not isinstance(base, nn.Linear):
            if next(part.parameters(), None) is not None:
                self.unsplit[name] = type(part).__name__
            return
        # peft: base_layer(x) + lora_B(lora_A(x)). Anything else with parameters of its own is not known.
        adapters = {"base_layer": [], "lora_A": [], "lora_B": []}
        for parameter, _ in part.named_parameters():
            key, _, rest = parameter.partition(".")
            if key not in adapters or rest.rpartition(".")[2] not in ("weight", "bias"):
                self.unsplit[name] = f"{type(part).__name__} with the parameter {parameter}"
                return
        for key, layer in part.named_modules():
            if isinstance(layer, nn.Linear):
                adapters[key.partition(".")[0]].append(f"{name}.{key}")
        self.styles[f"{name}.base_layer"] = self._style(is_column)
        # The layer with few outputs or inputs that is not split works on this rank's tokens, as norms do.
        for key in adapters["lora_B" if is_column else "lora_A"]:
            self.styles[key] = self._style(is_column)
        for key in adapters["lora_A" if is_column else "lora_B"] if self.tokens else ():
            self.styles[key] = _OnTokens()

    def _style(self, is_column):
        return ColwiseParallel(input_layouts=self.tokens) if is_column else RowwiseParallel(output_layouts=self.tokens)

    def check(self):
        """Raises if a model would be half split: a layer next to split ones, or, where ranks have some of the tokens, one that
        would see no others."""
        parents = {self._parent(name) for name, style in self.styles.items() if isinstance(style, _Linear)}
        wrong = [f"{name} ({what})" for name, what in self.unsplit.items()
                 if parents and (self.tokens or name.rpartition(".")[0] in parents)]
        if wrong:
            raise tandem.ArgumentError(f"parallelize: expected an nn.Linear, or one with peft's LoRA, found {', '.join(wrong)}; "
                                       "other layers of the model would be split: give a plan")


def plan(module, sequence_dim=0):
    """The plan that `parallelize` uses for a model with usual names: {"layers.0.self_attn.q_proj": ColwiseParallel, ..}.
    Norms work on this rank's tokens (torch's SequenceParallel)."""
    return _Plan(module, sequence_dim).styles


def _named(module, chosen):
    """(name, layer, style) of each layer that a plan names; patterns as in torch's parallelize_module."""
    for name, part in module.named_modules():
        for pattern, style in chosen.items():
            parts, wanted = name.split("."), pattern.split(".")
            if len(parts) == len(wanted) and all(map(fnmatch.fnmatch, parts, wanted)):
                yield name, part, style
                break


def _check_layers(module, chosen, mesh):
    """Raises, naming the layer, before anything is changed."""
    names = {}
    for name, part in module.named_modules():
        for key, value in part.named_parameters(recurse=False):
            names.setdefault(id(value), []).append(f"{name}.{key}")
    for name, part, style in _named(module, chosen):
        if not isinstance(style, (_Linear, _OnTokens)):
            continue
        try:
            style._check(part, mesh)
        except tandem.ArgumentError as error:
            raise tandem.ArgumentError(f"layer {name}: {error}") from error
        for key, value in part.named_parameters(recurse=False):
            if len(tied := names[id(value)]) > 1:
                raise tandem.ArgumentError(f"layer {name}: expected a {key} of its own, found one that is tied: "
                                           f"{', '.join(tied)}; untie it, or leave the layer out of the plan")


def parallelize(module, mesh, parallelize_plan=None, *, sequence_dim=0, src_data_rank=0):
    """Makes a model tensor-parallel, with communication hidden behind its matmuls; returns it.

    mesh: a torch DeviceMesh of one dimension. parallelize_plan: as of torch's parallelize_module, with the styles of
    this package or of torch; None: `plan(module, sequence_dim)`. sequence_dim: the dimension of the activations along
    which tokens are split between the layers (sequence parallelism): each rank passes its own tokens to the model, and
    gets its own back. None: every rank has all tokens. src_data_rank: the rank whose weights are split, as for torch;
    None: each rank splits its own, which are the same on all ranks.

    The product of a plain nn.Linear is overlapped. A subclass, or a layer whose forward was replaced or whose weight is a
    subclass of tensors, keeps its forward: torch's style splits it, and the log says so.
    Raises tandem.ArgumentError, and changes nothing, if no layer is found or one cannot be split.
    """
    if parallelize_plan is None:
        found = _Plan(module, sequence_dim)
        found.check()
        chosen = found.styles
    else:
        found, chosen = None, dict(parallelize_plan)
    if not any(isinstance(style, _Linear) for style in chosen.values()):
        if found is None and chosen:
            raise tandem.ArgumentError("parallelize: expected a ColwiseParallel or RowwiseParallel of this package in the plan, "
                                       "found none")
        others = "".join(f"; {name} is {what}" for name, what in (found.unsplit if found else {}).items())
        raise tandem.ArgumentError("parallelize: expected linear layers with names such as q_proj, gate_proj or down_proj, "
                                   f"found none{others}: give a plan")
    _check_layers(module, chosen, mesh)
    module = parallelize_module(module, mesh, chosen, src_data_rank=src_data_rank)
    for name, part in module.named_modules():
        if isinstance(part, Linear):
            part._tandem_name = name or type(part).__name__
    return module
