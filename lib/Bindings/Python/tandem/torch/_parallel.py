# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Styles for torch.distributed.tensor.parallel.parallelize_module."""

import copy
import logging
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.tensor.parallel as torch_parallel
from torch import nn
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ParallelStyle

import tandem

from . import _ops
from ._unsupported import check_once, check_transforms

log = logging.getLogger("tandem.torch")


class Linear(nn.Linear):
    """A linear layer that `ColwiseParallel` or `RowwiseParallel` has split. The styles change the class of a plain
    nn.Linear to this one, so that the layer can be copied, pickled and called like any other."""

    def forward(self, input):
        return _results([self], input, lambda: [self._tandem_style._run(self, input)])[0]


class Embedding(nn.Embedding):
    """An embedding whose rows `RowwiseParallel` has split. All ranks pass the same numbers, and get the sum of what they have."""

    def forward(self, input):
        mesh, rows = self.weight.device_mesh, self.weight.to_local()
        if isinstance(input, DTensor):
            input = input.redistribute(placements=[Replicate()]).to_local()
        first = mesh.get_local_rank() * rows.shape[0]
        at = input - first
        # A number that no rank has is an error of the first or last one.
        others = ((at < 0) & (first > 0)) | ((at >= rows.shape[0]) & (first + rows.shape[0] < self.num_embeddings))
        padding = -1 if self.padding_idx is None else self.padding_idx - first
        y = nn.functional.embedding(at.masked_fill(others, 0), rows, padding if 0 <= padding < rows.shape[0] else None)
        y = y.masked_fill(others[..., None], 0)
        return DTensor.from_local(y, mesh, [Partial()], run_check=False).redistribute(placements=[Replicate()]).to_local()


def _results(layers, x, call):
    """call(), the results of split layers. Errors name the layers; a weight that changes before the backward is an error."""
    try:
        if not isinstance(x, torch.Tensor):
            raise tandem.ArgumentError(f"expected a tensor, found {type(x).__name__}")
        check_transforms(layers[0]._tandem_name, (x,))  # DTensor's own errors name nothing
        if plain := [key for one in layers for key, value in one._parameters.items() if not isinstance(value, (DTensor, type(None)))]:
            raise tandem.ArgumentError(f"expected a {plain[0]} that is a DTensor, as parallelize has made it, found a plain tensor")
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
    if any(map(nn.parameter.is_lazy, module.parameters(recurse=False))):
        return "expected parameters with shapes, found uninitialised ones: call the layer once before"
    if lost := [type(value).__name__ for value in module.parameters(recurse=False) if _is_lost(type(value))]:
        return f"expected tensors, found {lost[0]}, whose __torch_function__ a split tensor would not call"
    weight = module._parameters.get("weight")
    if weight is None:
        return "expected a parameter named weight, found none: a hook such as the old weight_norm computes it; remove it before"
    if tuple(weight.shape) != (module.out_features, module.in_features) or not weight.is_floating_point():
        return (f"expected a floating-point weight of shape {(module.out_features, module.in_features)}, found {weight.dtype} "
                f"of shape {tuple(weight.shape)}: quantised layers cannot be split")
    return None


def _is_lost(kind):
    """Does a subclass of tensors compute something that it would not as a DTensor's part? That needs a __torch_dispatch__."""
    function = getattr(kind.__torch_function__, "__func__", kind.__torch_function__)
    return (kind.__torch_dispatch__ is torch.Tensor.__torch_dispatch__ and
            function not in (torch.Tensor.__torch_function__.__func__, nn.Parameter.__torch_function__))


#: Subclasses of nn.Linear that compute what it does.
_SAME = ("FalconLinear", "NonDynamicallyQuantizableLinear")


def is_plain(module):
    """Whether the layer computes F.linear(x, weight, bias) of plain tensors and nothing else."""
    if getattr(nn.Linear.forward, "__globals__", None) is not vars(nn.modules.linear):
        return False  # that of all layers was replaced
    kinds = {type(one._local_tensor if isinstance(one, DTensor) else one) for one in module.parameters(recurse=False)}
    is_linear = type(module) in (nn.Linear, Linear) or type(module).__name__ in _SAME and \
        type(module).__module__.startswith(("torch.", "transformers."))
    return is_linear and "forward" not in vars(module) and kinds <= {torch.Tensor, nn.Parameter}


def adapters_of(module):
    """(the names of the linear layers in each of "base_layer", "lora_A" and "lora_B", None) of peft's layer, which computes
    base_layer(x) + lora_B(lora_A(x)). Or (None, what else the module is)."""
    adapters: dict[str, list] = {"base_layer": [], "lora_A": [], "lora_B": []}
    if not isinstance(getattr(module, "base_layer", None), nn.Linear):
        return None, type(module).__name__
    for parameter, _ in module.named_parameters():
        key, _, rest = parameter.partition(".")
        if key not in adapters or rest.rpartition(".")[2] not in ("weight", "bias"):
            return None, f"{type(module).__name__} with the parameter {parameter}"
    for key, layer in module.named_modules():
        if isinstance(layer, nn.Linear):
            adapters[key.partition(".")[0]].append(key)
    return adapters, None


class _Linear(ParallelStyle):
    """A linear layer whose weight is split over a mesh of one dimension."""

    weight_placement: Any = None  # of the weight [out, in]
    bias_placement = None

    def __init__(self, *, input_layouts, output_layouts, use_local_output):
        super().__init__()
        self.input_layout, self.output_layout = input_layouts, output_layouts
        if not all(isinstance(one, Placement) for one in (input_layouts, output_layouts)):
            raise tandem.ArgumentError(f"{type(self).__name__}: expected placements as input_layouts and output_layouts, found "
                                       f"{input_layouts} and {output_layouts}")
        self.use_local_output = use_local_output
        self.follows = False  # DTensors keep their layout: whole ones and those that are split along the tokens are both good

    @property
    def is_direct(self):
        """Whether the layer takes and returns whole hidden states, and its other side is split along the features."""
        return (self.input_layout, self.output_layout) == self.direct

    def __repr__(self):
        return (f"{type(self).__name__}(input_layouts={self.input_layout}, output_layouts={self.output_layout}, "
                f"use_local_output={self.use_local_output})")

    def _apply(self, module, device_mesh):
        self._check(module, device_mesh)
        if type(module) is nn.Embedding and self._is_sum_of(module, device_mesh.size()):
            return self._split(module, device_mesh, Embedding)
        is_linear = isinstance(module, nn.Linear) and not any(one.is_partial() for one in (self.input_layout, self.output_layout))
        if not is_linear or not is_plain(module):  # torch's style calls the layer's own forward
            if is_linear:  # LoRA, FP8, fake quantisation, accelerate's hooks, torchao's weights
                log.warning("%s: %s is more than a product of plain tensors, so its communication is not overlapped: torch's style "
                            "splits it", type(self).__name__, type(module).__name__)
            style = self.of_torch(input_layouts=self.input_layout, output_layouts=self.output_layout,
                                  use_local_output=self.use_local_output)
            style.src_data_rank = self.src_data_rank
            return style._apply(module, device_mesh)
        return self._split(module, device_mesh)

    def _is_sum_of(self, module, ranks):
        """Whether `Embedding` computes it. Others are left to torch's style."""
        return (isinstance(self, RowwiseParallel) and self.input_layout == self.output_layout == Replicate() and self.use_local_output and
                module.num_embeddings % ranks == 0 and module.max_norm is None and not module.scale_grad_by_freq and not module.sparse and
                type(module.weight) in (nn.Parameter, DTensor) and "forward" not in vars(module))

    def _split(self, module, mesh, kind=Linear):
        for key in ("weight", "bias"):
            value, placement = getattr(module, key, None), self.placement(module, key)
            if value is not None and not isinstance(value, DTensor):
                split = distribute_tensor(value, mesh, [placement], src_data_rank=self.src_data_rank)
                module.register_parameter(key, nn.Parameter(split, requires_grad=value.requires_grad))
        module._tandem_style, module._tandem_name = self, type(self).__name__
        module.__class__ = kind
        return module

    def _transposed(self, module):
        """This rank's part of the weight, [in, out]."""
        return _transpose(module.weight)

    def placement(self, module, key):
        """That of a parameter of the layer."""
        if isinstance(module, nn.Embedding):  # [numbers, out]: columns are its second dimension
            return Shard(1 - self.weight_placement.dim)
        return self.weight_placement if key == "weight" else self.bias_placement

    def _check(self, module, mesh):
        """Raises unless the layer can be split over the mesh. Changes nothing."""
        name = type(self).__name__
        if not isinstance(module, (nn.Linear, nn.Embedding)):
            raise tandem.ArgumentError(f"{name}: expected a torch.nn.Linear or Embedding, found {type(module).__name__}")
        if getattr(mesh, "ndim", None) != 1:
            raise tandem.ArgumentError(f"{name}: expected a mesh of one dimension, such as mesh[\"tp\"], found {mesh}")
        if isinstance(module, nn.Embedding):
            return
        if problem := _problem(module):
            raise tandem.ArgumentError(f"{name}: {problem}")
        features = module.weight.shape[self.weight_placement.dim] if isinstance(self.weight_placement, Shard) else 0
        if features % mesh.size():
            raise tandem.ArgumentError(f"{name}: expected features that {mesh.size()} ranks divide, found {features}")
        for key in ("weight", "bias"):
            value, placement = getattr(module, key), self.placement(module, key)
            if isinstance(value, DTensor) and (value.placements != (placement,) or value.device_mesh != mesh):
                raise tandem.ArgumentError(f"{name}: expected a {key} with placement {placement} on {mesh}, or a plain tensor, "
                                           f"found placements {value.placements} on {value.device_mesh}")

    def _local(self, x, mesh):
        """(this rank's part of an input, its placement, its global shape or None)."""
        layout = self.input_layout
        if isinstance(layout, Shard) and _dim(layout, x) == x.dim() - 1:  # features are gathered before
            if not isinstance(x, DTensor):
                x = DTensor.from_local(x, mesh, [layout], run_check=False)
            layout = Replicate()
        if not isinstance(x, DTensor):
            return x, layout, None
        _check_mesh(x, mesh)
        if isinstance(layout, Shard):
            layout = Shard(_dim(layout, x))
        if self.follows and isinstance(x.placements[0], (Shard, Replicate)):
            layout = x.placements[0]
        if x.placements != (layout,):
            x = x.redistribute(mesh, [layout])
        return x.to_local(), layout, x.shape

    def _made(self, y, mesh, shape, layout):
        """The result of a layer, of which the product has made `y`, this rank's part by `layout`."""
        if self.use_local_output and layout == self.output_layout:
            return y
        y = _global(y, mesh, layout, shape).redistribute(placements=[self.output_layout])
        return y.to_local() if self.use_local_output else y


def _global(x, mesh, layout, shape):
    """The DTensor of a shape whose part on this rank is x."""
    stride = [1] * len(shape)
    for dim in range(len(shape) - 2, -1, -1):
        stride[dim] = stride[dim + 1] * shape[dim + 1]
    return DTensor.from_local(x, mesh, [layout], run_check=False, shape=torch.Size(shape), stride=tuple(stride))


def _check_mesh(x, mesh):
    if x.device_mesh != mesh:
        raise tandem.ArgumentError(f"expected a DTensor on {mesh}, found one on {x.device_mesh}")


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
        ctx.name, ctx.weights, ctx.version = name, weights, weights[0]._version
        if y._is_view():  # to_local's; autograd allows no change of it
            return y.view_as(y)
        ctx.mark_dirty(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        if ctx.weights[0]._version != ctx.version:
            raise RuntimeError(f"{ctx.name}: its weight has been modified by an inplace operation since the forward pass")
        return grad, None, None


class _Replica(torch.autograd.Function):
    """whole.to_local() of a replicated DTensor. If a rank uses it for its own tokens, its gradient is the sum over the ranks."""

    @staticmethod
    def forward(ctx, whole, is_sum):
        ctx.spec, ctx.is_sum, ctx.whole, ctx.version = whole._spec, is_sum, [whole], whole._version
        return whole._local_tensor.view_as(whole._local_tensor)

    @staticmethod
    def backward(ctx, grad):
        check_once("a parameter that all ranks have", grad)
        if ctx.whole[0]._version != ctx.version:  # what is saved is its local part, whose changes torch does not count
            raise RuntimeError("a parameter that all ranks have has been modified by an inplace operation since the forward pass")
        if ctx.is_sum:
            grad = grad.clone(memory_format=torch.contiguous_format)
            dist.all_reduce(grad, group=ctx.spec.mesh.get_group())  # functional collectives: 80 us more
        return DTensor(grad, ctx.spec, requires_grad=False), None


def _unchanged(y, name, weight):
    return _Unchanged.apply(y, name, [weight]) if y.requires_grad and not torch.compiler.is_compiling() else y


def _replica(whole, is_sum=True):
    if not torch.is_grad_enabled() or not whole.requires_grad:
        return whole.to_local()
    if torch.compiler.is_compiling():  # the gradient of redistribute is redistributed
        return whole.redistribute(placements=[Replicate()]).to_local(grad_placements=[Partial()]) if is_sum else whole.to_local()
    return _Replica.apply(whole, is_sum)


def _transpose(weight):
    return weight.to_local().t() if torch.compiler.is_compiling() else _Transpose.apply(weight)


def _dim(placement, x):
    if not -x.dim() <= placement.dim < x.dim():
        raise tandem.ArgumentError(f"expected dimension {placement.dim} in the input, found shape {tuple(x.shape)}")
    return placement.dim % x.dim()


class ColwiseParallel(_Linear):
    """Column-parallel linear layer, a drop-in for torch's ColwiseParallel: each rank has some of the outputs.

    input_layouts: Shard(d), sequence parallelism: the gather along dimension d is hidden behind the product; or
    Replicate(): in the backward pass the sum of the input's gradient is. output_layouts: Shard(-1); the product's result is
    redistributed to any other.

    Each layer gathers its input. `column_linears` computes several layers of one input (q, k, v; gate, up) with one gather.
    """

    of_torch = torch_parallel.ColwiseParallel
    weight_placement, bias_placement = Shard(0), Shard(0)
    direct = Replicate(), Shard(-1)

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output=True):
        super().__init__(input_layouts=input_layouts or Replicate(), output_layouts=output_layouts or Shard(-1),
                         use_local_output=use_local_output)

    def on_tokens(self, dim):
        """The style for hidden states that are whole, or DTensors that are split along the tokens."""
        style = copy.copy(self)
        style.follows = True
        return style

    def _run(self, module, x):
        return self._products([module], x)[0]

    def _products(self, modules, x):
        mesh = modules[0].weight.device_mesh
        group = mesh.get_group().group_name
        local, layout, shape = self._local(x, mesh)
        weights = [self._transposed(module) for module in modules]
        if isinstance(layout, Shard):
            dim = _dim(layout, local)
            tokens = None if shape is None else shape[dim]
            products = _ops.all_gather_matmul(local, weights, dim, group, tokens)
        else:
            if local.shape[-1:] != (modules[0].in_features,):
                raise tandem.ArgumentError(f"expected {modules[0].in_features} features, found shape {tuple(local.shape)}")
            products = _ops.column_parallel(local, weights, group)
        made = []
        for module, y in zip(modules, products):
            if module.bias is not None:
                y = y + self._bias(module).to(y.dtype)  # they differ under autocast
            made.append(self._made(y, mesh, (*y.shape[:-1], module.out_features), Shard(-1)))
        return made

    def _bias(self, module):
        return module.bias.to_local()


class SharedColumns(ColwiseParallel):
    """Columns in fewer groups than there are ranks, such as key heads: neighbouring ranks compute the same group. All ranks
    have the whole weight."""

    weight_placement = bias_placement = Replicate()

    def __init__(self, groups):
        super().__init__()
        self.groups = groups

    def _check(self, module, mesh):
        if not is_plain(module):
            raise tandem.ArgumentError("SharedColumns: expected a torch.nn.Linear with nn.Linear's forward and plain tensors, found "
                                       f"{type(module).__name__} with others")
        if mesh.size() % self.groups or module.out_features % self.groups:
            raise tandem.ArgumentError(f"SharedColumns: expected groups that divide {mesh.size()} ranks and {module.out_features} "
                                       f"features, found {self.groups}")
        super()._check(module, mesh)

    def _columns(self, module):
        mesh, count = module.weight.device_mesh, module.out_features // self.groups
        first = mesh.get_local_rank() * self.groups // mesh.size() * count
        return slice(first, first + count)

    def _transposed(self, module):
        return _replica(module.weight)[self._columns(module)].t()

    def _bias(self, module):
        return _replica(module.bias)[self._columns(module)]


class RowwiseParallel(_Linear):
    """Row-parallel linear layer, a drop-in for torch's RowwiseParallel: each rank has some of the inputs.

    input_layouts: Shard(-1); any other is redistributed to it. output_layouts: Shard(d), sequence parallelism: a
    reduce-scatter along dimension d hidden behind the product; or Replicate(): an all-reduce.
    """

    of_torch = torch_parallel.RowwiseParallel
    weight_placement, bias_placement = Shard(1), Replicate()
    direct = Shard(-1), Replicate()

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output=True):
        super().__init__(input_layouts=input_layouts or Shard(-1), output_layouts=output_layouts or Replicate(),
                         use_local_output=use_local_output)

    def on_tokens(self, dim):
        """The style for hidden states that are split along the tokens."""
        style = copy.copy(self)
        style.output_layout, style.use_local_output = Shard(dim), False
        return style

    def _run(self, module, x):
        mesh = module.weight.device_mesh
        group = mesh.get_group().group_name
        if not isinstance(x, DTensor) and self.input_layout != Shard(-1):
            x = DTensor.from_local(x, mesh, [self.input_layout], run_check=False)
        local = x
        if isinstance(x, DTensor):
            _check_mesh(x, mesh)
            features = Shard(x.dim() - 1)
            local = (x if x.placements == (features,) else x.redistribute(mesh, [features])).to_local()
        weight, layout = self._transposed(module), self.output_layout
        if isinstance(layout, Shard) and (dim := _dim(layout, local)) == local.dim() - 1:
            layout = Replicate()  # there is no reduce-scatter of features
        if isinstance(layout, Shard):
            if self.use_local_output and local.shape[dim] % mesh.size():
                # The next layer could not tell how many tokens there are.
                raise tandem.ArgumentError(f"RowwiseParallel: expected a number of tokens that {mesh.size()} ranks divide, "
                                           f"or use_local_output=False, found {local.shape[dim]}")
            y = _ops.matmul_reduce_scatter(local, weight, dim, group)
        else:
            y = _ops.matmul_all_reduce(local, weight, group)
        if module.bias is not None:
            # Each rank adds it to its own rows.
            bias = _replica(module.bias) if isinstance(layout, Shard) else module.bias.to_local()
            y = y + bias.to(y.dtype)
        return self._made(y, mesh, (*local.shape[:-1], module.out_features), layout)


def column_linears(x, layers):
    """[layer(x) for layer in layers], with one gather of x if ColwiseParallel has split all of them with equal layouts: q, k,
    v or gate, up of one module. So a model can call it before it is split, too.
    Layers with hooks or a forward of their own are called one by one. Differentiable. Collective. Under torch.compile,
    `overlap_compiled()` merges the gathers of single layers by itself.
    """
    layers = list(layers)
    styles = [one._tandem_style for one in layers if isinstance(one, Linear) and isinstance(one._tandem_style, ColwiseParallel) and
              not ("forward" in vars(one) or one._forward_hooks or one._forward_pre_hooks or one._backward_hooks or one._backward_pre_hooks)]
    kinds = {(type(style), style.input_layout, style.use_local_output, style.follows, getattr(style, "groups", 0)) for style in styles}
    if len(styles) < len(layers) or len(kinds) != 1 or any(one.weight.device_mesh != layers[0].weight.device_mesh for one in layers):
        return [layer(x) for layer in layers]
    return _results(layers, x, lambda: styles[0]._products(layers, x))


class _LocalLinear(nn.Linear):
    """A linear layer whose parameters are replicated. Unlike what `Replicated` does, it notices changes of a frozen weight."""

    _tandem_sums = True

    def forward(self, input):
        name = "a linear layer on this rank's tokens"
        check_transforms(name, (input,))
        is_global = isinstance(input, DTensor)
        local, sums = (input.to_local(), input.placements != (Replicate(),)) if is_global else (input, self._tandem_sums)
        weight, bias = (None if one is None else _replica(one, sums) for one in (self.weight, self.bias))
        y = _unchanged(nn.functional.linear(local, weight, bias), name, self.weight)
        return _global(y, input.device_mesh, input.placements[0], (*input.shape[:-1], self.out_features)) if is_global else y


class _NormOfDTensors(ParallelStyle):
    """torch's SequenceParallel, but its inputs are DTensors, so it needs no hooks for them; torch's cannot be pickled. Gradients
    become sums over the ranks: torch leaves terms, and clip_grad_norm_ does not scale those."""

    def _apply(self, module, device_mesh):
        _replicate(module, device_mesh, self.src_data_rank)
        module.register_forward_pre_hook(watch)
        watch(module)
        return module


def _replicate(module, mesh, src_data_rank):
    for key, value in list(module.named_parameters(recurse=False)):
        whole = distribute_tensor(value, mesh, [Replicate()], src_data_rank=src_data_rank)
        module.register_parameter(key, nn.Parameter(whole, requires_grad=value.requires_grad))


def watch(module, *_):
    """Before each call, since copies of a module have its hooks, but copies of parameters have none."""
    for one in () if torch.compiler.is_compiling() else module.parameters(recurse=False):
        if isinstance(one, DTensor) and one.is_leaf and one.requires_grad and \
                _add_up not in (one._post_accumulate_grad_hooks or {}).values():
            one.register_post_accumulate_grad_hook(_add_up)


def _add_up(parameter):
    parameter.grad = parameter.grad.redistribute(placements=parameter.placements)


class _OnTokens(ParallelStyle):
    """A linear layer that is not split and works on this rank's tokens: the gradients of its parameters are summed over the
    ranks, unless all ranks have all tokens. torch's SequenceParallel refuses linear layers whose tokens are not the first
    dimension."""

    def __init__(self, sums=True):
        super().__init__()
        self.sums = sums

    def _check(self, module, mesh):
        """Raises unless the layer can be replicated. Changes nothing."""
        if not is_plain(module):
            raise tandem.ArgumentError("expected a torch.nn.Linear with nn.Linear's forward and plain tensors, found "
                                       f"{type(module).__name__} with others")
        if problem := _problem(module):
            raise tandem.ArgumentError(problem)

    def _apply(self, module, device_mesh):
        self._check(module, device_mesh)
        _replicate(module, device_mesh, self.src_data_rank)
        module.__class__, module._tandem_sums = _LocalLinear, self.sums
        return module
