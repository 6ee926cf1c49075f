# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""parallelize, and the plan for models without one whose layers have usual names."""

import fnmatch
import re

from torch import nn
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ParallelStyle, parallelize_module

import tandem

from . import _adapters, _models
from ._parallel import ColwiseParallel, Linear, RowwiseParallel, _Linear, _OnTokens, adapters_of, is_plain, log
from ._replicated import Replicated

# Names of linear layers in Llama, GPT and their relatives (transformers, torchtitan, nanoGPT).
_COLUMNS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "wq", "wk", "wv", "w1", "w3", "c_fc", "fc1",
            "dense_h_to_4h")
_ROWS = ("o_proj", "down_proj", "wo", "w2", "c_proj", "fc2", "dense_4h_to_h", "out_proj")
_NORMS_OF_HEADS = ("q_norm", "k_norm", "q_layernorm", "k_layernorm", "norm_q", "norm_k", "query_norm", "key_norm")
# Layers that hold several projections one after another: with the styles below, a rank would get columns of one projection.
_PACKED = ("*qkv*", "*kv_proj", "to_kv", "wkv", "gate_up*", "query_key_value", "c_attn", "w_pack", "in_proj")


def _is_one(name, patterns):
    return any(fnmatch.fnmatch(name.lower(), one) for one in patterns)


def _is_known(name):
    return any(part in _COLUMNS or part in _ROWS for part in name.split("."))


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
            elif _is_one(last, _PACKED) and "norm" not in last and list(part.parameters()) and not any(map(_is_known, part.state_dict())):
                self.unsplit[name] = "several projections in one layer"
        # A row-parallel layer needs a column-parallel one that feeds it.
        parents = {self._parent(name) for name, style in self.styles.items() if isinstance(style, ColwiseParallel)}
        rows = [name for name, style in self.styles.items() if isinstance(style, RowwiseParallel)]
        self.styles = {name: style for name, style in self.styles.items()
                       if not isinstance(style, RowwiseParallel) or self._parent(name) in parents}
        self.others = [name for name, part in model.named_modules() if isinstance(part, nn.Linear) and not _is_known(name) and
                       (self.tokens or any(name.startswith(parent and f"{parent}.") for parent in parents))]
        self.others += [name for name in rows if name not in self.styles and self.tokens]
        if self.styles:
            # A rank has some of the tokens, or, for norms of queries and keys, some of the heads.
            for name, _ in model.named_modules() if not self.tokens else ():
                if name.rpartition(".")[2] in _NORMS_OF_HEADS and name.rpartition(".")[0] in parents:
                    self.styles[name] = Replicated(sum_gradients=True)
            self.styles[""] = Replicated(sum_gradients=self.tokens is not None)

    @staticmethod
    def _parent(name):
        """The name of the module that has the layer, also for a part of a wrapper (q_proj.base_layer, q_proj.lora_A.default)."""
        parts = name.split(".")
        return ".".join(parts[:max(at for at, one in enumerate(parts) if one in _COLUMNS or one in _ROWS)])

    def _add(self, name, part, is_column):
        if isinstance(part, nn.Linear):
            self.styles[name] = self._style(is_column)
            return
        adapters, problem = adapters_of(part)
        if problem:
            if next(part.parameters(), None) is not None:
                self.unsplit[name] = problem
            return
        # The layer with few outputs or inputs that is not split works on this rank's tokens, as norms do.
        for key in adapters["base_layer"] + adapters["lora_B" if is_column else "lora_A"]:
            self.styles[f"{name}.{key}"] = self._style(is_column)
        for key in adapters["lora_A" if is_column else "lora_B"]:
            if self.tokens or is_plain(part.get_submodule(key)):
                self.styles[f"{name}.{key}"] = _OnTokens(self.tokens is not None)

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
        if parents and self.others:
            names = dict.fromkeys(re.sub(r"\b\d+\b", "*", name) for name in self.others)
            log.warning("parallelize: these linear layers are not split%s: %s", ", and work on this rank's tokens" if self.tokens else "",
                        ", ".join(names))


def plan(module, sequence_dim=0, mesh=None, *, experts="columns", loss_parallel=False):
    """The plan that `parallelize` uses: {"layers.0.self_attn.q_proj": ColwiseParallel, .., "": Replicated}. mesh: that of
    `parallelize`, by which models of transformers share heads. experts, loss_parallel: as of `parallelize`."""
    if _models.is_known(module):
        return _models.plan(module, sequence_dim, mesh, experts, loss_parallel)
    return _Plan(module, sequence_dim).styles


def _named(module, chosen):
    """(name, layer, style) of each layer that a plan names; patterns as in torch's parallelize_module."""
    for name, part in module.named_modules():
        for pattern, style in chosen.items():
            parts, wanted = name.split("."), pattern.split(".")
            if bool(name) == bool(pattern) and len(parts) == len(wanted) and all(map(fnmatch.fnmatch, parts, wanted)):
                yield name, part, style
                break


def _check_layers(module, chosen, mesh):
    """Raises, naming the layer, before anything is changed. Returns the names of tied parameters that are split alike."""
    names, placements = _models.parameter_names(module), {}
    for name, part, style in _named(module, chosen):
        if not isinstance(style, (_Linear, _OnTokens)):
            if hasattr(style, "check"):
                style.check()
            continue
        try:
            style._check(part, mesh)
        except tandem.ArgumentError as error:
            raise tandem.ArgumentError(f"layer {name}: {error}") from error
        for key, _ in part.named_parameters(recurse=False):
            placements[f"{name}.{key}"] = style.placement(part, key) if isinstance(style, _Linear) else None
    ties = [tied for tied in names.values() if len(tied) > 1 and any(name in placements for name in tied)]
    for tied in ties:
        if len({placements.get(name) for name in tied}) > 1 or placements.get(tied[0]) is None:
            layer, _, key = next(name for name in tied if name in placements).rpartition(".")
            raise tandem.ArgumentError(f"layer {layer}: expected a {key} of its own, or a plan that splits it alike everywhere, found "
                                       f"one that is tied: {', '.join(tied)}; untie it, or leave the layer out of the plan")
    return ties


def parallelize(module, mesh, parallelize_plan=None, *, sequence_dim=0, src_data_rank=0, experts="columns", loss_parallel=False):
    """Makes a model tensor-parallel, with communication hidden behind its matmuls; returns it.

    mesh: a torch DeviceMesh of one dimension. parallelize_plan: as of torch's parallelize_module, with the styles of
    this package or of torch; None: `plan(module, sequence_dim, mesh)`. sequence_dim: the dimension of the activations along
    which tokens are split between the layers (sequence parallelism): each rank passes its own tokens to the module, and
    gets its own back. None: every rank has all tokens. Models of transformers get all tokens on each rank, and return all;
    their tokens are dimension 1, also by default (docs/models.md). src_data_rank: the rank whose weights are split, as for torch;
    None: each rank splits its own, which are the same on all ranks.

    For models of transformers: experts: "columns", each rank has some columns of each expert, or "ranks", each rank has some
    experts, by the model's `ep_plan`. loss_parallel: inside of torch's `loss_parallel()` logits are a DTensor that is split along
    the vocabulary, and all else that the model returns is whole.

    The product of a plain nn.Linear is overlapped. A subclass, or a layer whose forward was replaced or whose weight is a
    subclass of tensors, keeps its forward: torch's style splits it, and the log says so.
    Raises tandem.ArgumentError, and changes nothing, if no layer is found or one cannot be split.
    """
    if type(sequence_dim) not in (int, type(None)):
        raise tandem.ArgumentError(f"parallelize: expected a dimension or None as sequence_dim, found {sequence_dim!r}")
    if experts not in ("columns", "ranks"):
        raise tandem.ArgumentError(f"parallelize: expected experts=\"columns\" or \"ranks\", found {experts!r}")
    base = module.get_base_model() if hasattr(module, "get_base_model") else module
    if parallelize_plan is None and base is not module and _models.is_known(base):  # peft's model around one of transformers
        parallelize(base, mesh, sequence_dim=sequence_dim, src_data_rank=src_data_rank, experts=experts, loss_parallel=loss_parallel)
        return module
    found = None
    if (experts, loss_parallel) != ("columns", False) and (parallelize_plan is not None or not _models.is_known(module)):
        raise tandem.ArgumentError("parallelize: expected a model of transformers without a plan of yours for experts or loss_parallel, "
                                   f"found {type(module).__name__}: give a plan that has them")
    if parallelize_plan is not None:
        chosen = {"": parallelize_plan} if isinstance(parallelize_plan, ParallelStyle) else dict(parallelize_plan)
    elif _models.is_known(module):
        chosen = _models.plan(module, sequence_dim, mesh, experts, loss_parallel)
    else:
        found = _Plan(module, sequence_dim)
        found.check()
        chosen = found.styles
    if not any(isinstance(style, _Linear) for _, _, style in _named(module, chosen)):
        if found is None and chosen:
            raise tandem.ArgumentError("parallelize: expected a ColwiseParallel or RowwiseParallel of this package in the plan, with "
                                       "the name of a layer, found none")
        others = "".join(f"; {name} is {what}" for name, what in (found.unsplit if found else {}).items())
        raise tandem.ArgumentError("parallelize: expected linear layers with names such as q_proj, gate_proj or down_proj, "
                                   f"found none{others}: give a plan")
    ties = _check_layers(module, chosen, mesh)
    rest = chosen.pop("", None)  # torch drops src_data_rank for a style of the module itself in a dict
    module = parallelize_module(module, mesh, chosen, src_data_rank=src_data_rank)
    for first, *others in ties:
        for name in others:
            owner, _, key = name.rpartition(".")
            module.get_submodule(owner)._parameters[key] = module.get_parameter(first)
    if rest:
        module = parallelize_module(module, mesh, rest, src_data_rank=src_data_rank)
    for name, part in module.named_modules():
        if isinstance(part, Linear):
            part._tandem_name = name or type(part).__name__
        elif "base_layer" in part._modules:
            _adapters.close(part, name)
    return module
