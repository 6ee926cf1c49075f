# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Styles of the parts of models of transformers: heads of logits, parts with heads of attention or experts, and those between
which hidden states are split along the tokens."""

import re
import zlib

import torch
import torch.distributed as dist
from torch._guards import detect_fake_mode
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import ParallelStyle

import tandem

from ._parallel import ColwiseParallel, _global
from ._replicated import Replicated

#: transformers' style of a layer with experts, each of which one rank has
_DISPATCH = "ep_dispatch_experts"


class _Head(ColwiseParallel):
    """A head whose logits are split along the vocabulary while torch's `loss_parallel()` is entered, and else whole."""

    def __init__(self):
        super().__init__(output_layouts=Replicate())

    def _made(self, y, mesh, shape, layout):
        if not _is_loss_parallel():
            return super()._made(y, mesh, shape, layout)
        return _global(y, mesh, layout, shape)


def _is_loss_parallel():
    """torch has no function that tells."""
    return torch.ops.aten._log_softmax.default in DTensor._op_dispatcher._custom_op_handlers


class _Around(ParallelStyle):
    """Adds to another style of the same layer, if there is one."""

    def __init__(self, style):
        super().__init__()
        self.style = style

    def _apply_other(self, module, mesh):
        if self.style is None:
            return module
        self.style.src_data_rank = self.src_data_rank
        return self.style._apply(module, mesh)

    def check(self):
        if hasattr(self.style, "check"):
            self.style.check()


class _DividesHeads(_Around):
    """Gives a layer the number of heads that a rank has."""

    def __init__(self, key, by, style):
        super().__init__(style)
        self.key, self.by = key, by

    def _apply(self, module, device_mesh):
        setattr(module, self.key, getattr(module, self.key) // (self.by or device_mesh.size()))
        return self._apply_other(module, device_mesh)


class _TakesMasksOfHeads(_Around):
    """A layer whose arguments have terms for each head, [batch, heads, queries, keys]: a rank takes those of its heads."""

    def __init__(self, heads, style):
        super().__init__(style)
        self.heads = heads

    def _apply(self, module, device_mesh):
        self.mesh = device_mesh
        module.register_forward_pre_hook(self._take, with_kwargs=True)
        return self._apply_other(module, device_mesh)

    def _take(self, _, args, kwargs):
        return args, {key: one.chunk(self.mesh.size(), 1)[self.mesh.get_local_rank()]
                      if isinstance(one, torch.Tensor) and one.dim() == 4 and one.shape[1] == self.heads else one
                      for key, one in kwargs.items()}


class _OnHeads(Replicated):
    """A norm that each rank applies to its own heads."""

    is_direct = True

    def __init__(self):
        super().__init__(sum_gradients=True)


class _TakesHeads(_OnHeads):
    """A module whose results have a column for each head: a rank takes those of its heads."""

    def _apply(self, module, device_mesh):
        self.mesh = device_mesh
        module.register_forward_hook(self._take)
        return super()._apply(module, device_mesh)

    def _take(self, module, _, result):
        return result.chunk(self.mesh.size(), -1)[self.mesh.get_local_rank()]


class _OfTransformers(ParallelStyle):
    """Styles of transformers, by their names, for a layer (key "") and for its parameters."""

    def __init__(self, model):
        super().__init__()
        self.config, self.parts = model.config.get_text_config(), {}
        self.contexts: list = []  # of each call that runs

    def _apply(self, module, device_mesh):
        self.mesh = device_mesh
        for key, style in self.parts.items():
            if key:
                self._share(module._parameters.get(key))
                self._style(style).shard_param(module, key, device_mesh)
        if "" in self.parts:
            module.config = getattr(module, "config", self.config)
            module.register_forward_pre_hook(self._before, with_kwargs=True)
            module.register_forward_hook(self._after, always_call=True)
        return module

    def _share(self, parameter):
        """The values of rank `src_data_rank`: transformers splits each rank's own."""
        if parameter is not None and self.src_data_rank is not None and not parameter.is_meta:
            dist.broadcast(parameter.detach(), group=self.mesh.get_group(), group_src=self.src_data_rank)

    def _before(self, module, args, kwargs):
        style = self._style(self.parts[""])
        args, kwargs = style.transform_inputs_pre_forward(module, args, kwargs, self.mesh)
        if self.parts[""] == _DISPATCH:
            args = self._of_my_experts(module, *args)
        context = style.context_around_forward(module, self.mesh)
        context.__enter__()
        self.contexts.append((context, args))
        return args, kwargs

    def _of_my_experts(self, module, hidden, index, weights):
        """The same tokens with numbers of this rank's experts; the number of experts, with a weight of 0, for those of others."""
        is_other = index // module.num_experts != self.mesh.get_local_rank()
        return hidden, (index % module.num_experts).masked_fill(is_other, module.num_experts), weights.masked_fill(is_other, 0.0)

    def _after(self, module, _, result):
        if not self.contexts:
            return None  # the call failed before it began
        context, args = self.contexts.pop()
        if isinstance(result, torch.Tensor) and torch.is_grad_enabled() and not result.requires_grad:
            # No token is for this rank's experts. It joins the others' collectives in the backward pass, with gradients of 0.
            result = sum((one.flatten()[:0].sum() for one in (*args, *module.parameters()) if one.is_floating_point()), result)
        context.__exit__(None, None, None)
        return None if result is None else self._style(self.parts[""]).transform_output_post_forward(module, result, self.mesh)

    @staticmethod
    def _style(name):
        try:
            from transformers.distributed import expert_parallel  # noqa: F401 - which adds its styles
            from transformers.distributed.tensor_parallel import ALL_PARALLEL_STYLES
            # transformers' own style replaces the forward by a function inside of another; sums and local parameters are as by columns.
            return ALL_PARALLEL_STYLES["moe_tp_experts" if name == _DISPATCH else name]
        except (ImportError, KeyError):
            raise tandem.ArgumentError(f"parallelize: expected a style of the installed transformers, found {name}: "
                                       "give a plan, or use transformers 5.21 or later") from None

    def check(self):
        for name in self.parts.values():
            self._style(name)


# Hooks are methods of styles, not functions inside of functions: models with those could not be pickled.


class _Split(ParallelStyle):
    """A layer of a stack: gets and returns hidden states that are split along the tokens. The last one returns all tokens."""

    def __init__(self, dim, is_last):
        super().__init__()
        self.dim, self.is_last = dim, is_last

    def _apply(self, module, device_mesh):
        self.mesh = device_mesh
        module.register_forward_pre_hook(self._before, with_kwargs=True)
        if self.is_last:
            module.register_forward_hook(_make_whole)
        return module

    def _before(self, module, args, kwargs):
        if args:
            return (_split(args[0], self.mesh, self.dim), *args[1:]), kwargs
        if "hidden_states" not in kwargs:
            raise tandem.ArgumentError(f"{type(module).__name__}: expected hidden_states, found {', '.join(kwargs) or 'no arguments'}")
        return args, {**kwargs, "hidden_states": _split(kwargs["hidden_states"], self.mesh, self.dim)}


class _Whole(_Around):
    """A part of such a layer that works on all tokens. Its hidden states are split again, unless it returns columns."""

    def __init__(self, dim, style, has_columns=False):
        super().__init__(style)
        self.dim, self.has_columns = dim, has_columns
        self.shapes: list = []  # of each call that runs: the shape of hidden states that were split, or None

    def _apply(self, module, device_mesh):
        module = self._apply_other(module, device_mesh)
        self.mesh = device_mesh
        module.register_forward_pre_hook(self._before, with_kwargs=True, prepend=True)  # around the other style's
        module.register_forward_hook(self._after, always_call=True)
        return module

    def _before(self, _, args, kwargs):
        hidden = args[0] if args else kwargs.get("hidden_states")
        self.shapes.append(hidden.shape if isinstance(hidden, DTensor) else None)
        return _map(args, _whole), _map(kwargs, _whole)

    def _after(self, _, args, result):
        shape = self.shapes.pop() if self.shapes else None
        if shape is None or self.has_columns:
            return result
        shapes = shape, (shape[:-1].numel(), shape[-1])  # llama4's experts return the second
        return _map(result, lambda one: _split(one.view(shape), self.mesh, self.dim) if one.shape in shapes else one)


class _Model(Replicated):
    """The whole model, with the parameters of which all ranks compute the gradients. Its first inputs are compared between the
    ranks. Results are whole, also what it collects inside of the layers, such as all hidden states; but logits for `loss_parallel()`."""

    def __init__(self, loss_parallel=False):
        super().__init__()
        self.loss_parallel = loss_parallel
        self.compared: set = set()  # whether it was in training, of the calls that were compared

    def _apply(self, module, device_mesh):
        self.mesh = device_mesh
        module.register_forward_pre_hook(self._compare, with_kwargs=True)
        module.register_forward_hook(self._whole_but_logits if self.loss_parallel else _make_whole)
        return super()._apply(module, device_mesh)

    def _whole_but_logits(self, _, args, result):
        return _map(result, lambda x: x if isinstance(x, DTensor) and x.placements == (Shard(x.dim() - 1),) else _whole(x))

    def _compare(self, module, args, kwargs):
        if module.training in self.compared or torch.compiler.is_compiling() or detect_fake_mode() is not None:
            return  # fake tensors have no values
        what = {"inputs": _inputs_of(args, kwargs)}
        if module.training:
            for key, value in module.config.to_dict().items():
                if key.endswith("layerdrop") and value:
                    raise tandem.ArgumentError(f"{type(module).__name__}: expected a {key} of 0, since ranks would skip other layers, "
                                               f"found {value}")
                if re.search("drop|jitter|rescale", key) and isinstance(value, float) and value > 0:
                    what["states of the random numbers"] = [zlib.crc32(_state_of(self.mesh).numpy().tobytes())]
        _check_equal(type(module).__name__, what, self.mesh.get_group())
        self.compared.add(module.training)


def _make_whole(_, args, result):
    return _map(result, _whole)


def _state_of(mesh):
    return torch.get_rng_state() if mesh.device_type == "cpu" else torch.get_device_module(mesh.device_type).get_rng_state()


def _inputs_of(args, kwargs):
    """(shape, checksum) of each tensor."""
    found: list = []

    def note(one):
        found.append((tuple(one.shape), zlib.crc32(one.detach().flatten().cpu().contiguous().view(torch.uint8).numpy().tobytes())))
        return one
    _map([list(args), kwargs], note)
    return found


def _check_equal(model, what, group):
    """Raises on all ranks if they differ."""
    everyones: list = [None] * dist.get_world_size(group)
    dist.all_gather_object(everyones, what, group=group)
    for rank, other in enumerate(everyones):
        for key in set(other) | set(what):
            if other.get(key) != everyones[0].get(key):
                raise tandem.ArgumentError(f"{model}: expected the same {key} on all ranks, each with all tokens of the batch and the "
                                           f"same seed, found others on ranks 0 and {rank} of the group: {everyones[0].get(key)} and "
                                           f"{other.get(key)}")


def _map(value, change):
    """`value` with each tensor in it changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if hasattr(value, "to_tuple"):  # transformers' ModelOutput
        for key in list(value):
            value[key] = _map(value[key], change)
        return value
    if type(value) in (tuple, list):
        return type(value)(_map(one, change) for one in value)
    if type(value) is dict:
        return {key: _map(one, change) for key, one in value.items()}
    return value


def _split(x, mesh, dim):
    if isinstance(x, DTensor):
        return x
    return DTensor.from_local(x, mesh, [Replicate()], run_check=False).redistribute(placements=[Shard(dim)])


def _whole(x):
    # Gathered along another dimension than the first it has gaps, which models do not expect.
    return x.redistribute(placements=[Replicate()]).to_local().contiguous() if isinstance(x, DTensor) else x
