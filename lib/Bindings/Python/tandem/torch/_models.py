# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plans for models of transformers: their own (`model.tp_plan`), or one of `_PLANS`.

Linear layers get Tandem's styles. Experts and other layers that Tandem does not overlap get transformers' own.

With sequence parallelism, every rank still passes all tokens to the model and gets all results. Only the layers of a stack
work on tokens of their own: at its first layer the hidden states become a DTensor that is split along the tokens, and after
its last layer they are whole again. So a layer reads the whole shape from them, and masks, positions and caches, which are
made before, hold for all tokens. What does not know DTensors inside a layer (routers, layers that are not split) gets all
tokens, and its result is split again."""

import fnmatch
import re
from typing import Any

from torch import nn
from torch.distributed.tensor import Replicate

import tandem

from ._parallel import ColwiseParallel, Linear, RowwiseParallel, SharedColumns, _Linear, _NormOfDTensors, _OnTokens, adapters_of
from ._model_styles import (
    _DISPATCH, _DividesHeads, _Head, _Model, _OfTransformers, _OnHeads, _Split, _TakesHeads, _TakesMasksOfHeads, _Whole)
from ._packed import ColumnsOfConv1D, PackedColumns, RowsOfConv1D, of_falcon

#: transformers' style of a linear layer -> Tandem's, for whole hidden states
_LINEARS = {"colwise": lambda: ColwiseParallel(),
            "colwise_gather_output": lambda: ColwiseParallel(output_layouts=Replicate()),
            "colwise_rep": lambda: ColwiseParallel(output_layouts=Replicate()),
            "rowwise": lambda: RowwiseParallel(),
            "rowwise_split_input": lambda: RowwiseParallel(input_layouts=Replicate()),
            "rowwise_rep": lambda: RowwiseParallel(input_layouts=Replicate())}


def _attention(name, columns, row):
    return {**{f"{name}.{one}": "colwise" for one in columns.split()}, f"{name}.{row}": "rowwise"}


def _mlp(name, column, row):
    return {f"{name}{column}": "colwise", f"{name}{row}": "rowwise"}


_PROJECTIONS = "q_proj k_proj v_proj"
_BART = {**_attention("layers.*.self_attn", _PROJECTIONS, "out_proj"), **_attention("layers.*.encoder_attn", _PROJECTIONS, "out_proj"),
         **_mlp("layers.*.", "fc1", "fc2")}
_BERT = {**_attention("layer.*.attention", "self.query self.key self.value", "output.dense"),
         **_attention("layer.*.crossattention", "self.query self.key self.value", "output.dense"),
         **_mlp("layer.*.", "intermediate.dense", "output.dense")}
_T5 = {**{f"SelfAttention.{one}": "colwise" for one in "qkv"}, **{f"EncDecAttention.{one}": "colwise" for one in "qkv"},
       "SelfAttention.o": "rowwise", "EncDecAttention.o": "rowwise", "SelfAttention.relative_attention_bias": "heads",
       **{f"DenseReluDense.{one}": "colwise" for one in ("wi", "wi_0", "wi_1")}, "DenseReluDense.wo": "rowwise"}
_GPT2 = {"attn.c_attn": "packed_3", "attn.c_proj": "rowwise", "crossattention.q_attn": "colwise", "crossattention.c_attn": "packed_2",
         "crossattention.c_proj": "rowwise", **_mlp("h.*.mlp.", "c_fc", "c_proj")}
_CLIP = {**_attention("encoder.layers.*.self_attn", _PROJECTIONS, "out_proj"), **_mlp("encoder.layers.*.mlp.", "fc1", "fc2")}
#: Models of transformers that have no plan, by their type: as transformers' plans, but a pattern is the end of a name.
_PLANS = {
    **dict.fromkeys(("bart", "blenderbot", "blenderbot-small", "m2m_100", "marian", "mbart", "opt", "pegasus", "plbart", "speech_to_text", "whisper", "xglm"), _BART),
    **dict.fromkeys(("bert", "camembert", "data2vec-text", "electra", "ernie", "esm", "layoutlm", "rembert", "roberta", "roberta-prelayernorm", "roc_bert",
                     "xlm-roberta", "xmod"), _BERT),
    **dict.fromkeys(("clip", "siglip", "siglip_vision_model"), _CLIP),
    "chinese_clip": {**_CLIP, **_BERT},
    **dict.fromkeys(("t5", "mt5", "umt5"), _T5),
    "gpt2": _GPT2,
    "deberta-v2": {**_attention("layer.*.attention", "self.query_proj self.key_proj self.value_proj self.pos_key_proj self.pos_query_proj",
                                "output.dense"), **_mlp("layer.*.", "intermediate.dense", "output.dense")},
    "falcon": {"self_attention.query_key_value": "falcon", "self_attention.dense": "rowwise",
               **_mlp("h.*.mlp.", "dense_h_to_4h", "dense_4h_to_h")},
    "mpnet": {**_attention("layer.*.attention.attn", "q k v", "o"), **_mlp("layer.*.", "intermediate.dense", "output.dense"),
              "encoder.relative_attention_bias": "heads"},
    "albert": {**_attention("albert_layers.*.attention", "query key value", "dense"), **_mlp("albert_layers.*.", "ffn", "ffn_output")},
    "bloom": _mlp("h.*.mlp.", "dense_h_to_4h", "dense_4h_to_h"),
    **dict.fromkeys(("dinov2", "dinov2_with_registers"), {**_attention("layer.*.attention", _PROJECTIONS, "o_proj"),
                                                          **_mlp("layer.*.mlp.", "fc1", "fc2")}),
    "dinov3_vit": {**_attention("layer.*.attention", _PROJECTIONS, "o_proj"), **_mlp("layer.*.mlp.", "up_proj", "down_proj"),
                   "layer.*.mlp.gate_proj": "colwise"},
    "distilbert": {**_attention("layer.*.attention", "q_lin k_lin v_lin", "out_lin"), **_mlp("layer.*.ffn.", "lin1", "lin2")},
    **dict.fromkeys(("deit", "vit"), {**_attention("layers.*.attention", _PROJECTIONS, "o_proj"), **_mlp("layers.*.mlp.", "fc1", "fc2")}),
    **dict.fromkeys(("data2vec-audio", "hubert", "wav2vec2"), {**_attention("encoder.layers.*.attention", _PROJECTIONS, "out_proj"),
                                             **_mlp("encoder.layers.*.feed_forward.", "intermediate_dense", "output_dense")}),
    "gpt_neo": {**_attention("attn.attention", _PROJECTIONS, "out_proj"), **_mlp("h.*.mlp.", "c_fc", "c_proj")},
    "nomic_bert": {**_attention("layers.*.self_attn", _PROJECTIONS, "o_proj"), **_mlp("layers.*.mlp.", "gate_proj", "down_proj"),
                   "layers.*.mlp.up_proj": "colwise"},
}
#: Numbers of heads by which layers give tensors their shapes: (type, pattern, attribute).
_HEADS = [("opt", "layers.*.self_attn", "num_heads"), ("whisper", "layers.*.self_attn", "num_heads"),
          ("whisper", "layers.*.encoder_attn", "num_heads"), ("gpt2", "attn", "split_size"), ("gpt2", "crossattention", "split_size"),
          ("deberta-v2", "attention.self", "num_attention_heads"), ("mpnet", "attention.attn", "all_head_size"),
          ("falcon", "self_attention", "num_heads"), ("gpt_neo", "attn.attention", "num_heads"), ("xglm", "layers.*.self_attn", "num_heads"),
          ("xglm", "layers.*.self_attn", "embed_dim"),
          ("rembert", "attention.self", "all_head_size"), ("dinov3_vit", "layer.*.attention", "num_heads"),
          *((kind, attention, "n_heads") for kind in ("t5", "mt5", "umt5") for attention in ("SelfAttention", "EncDecAttention"))]
#: Types whose layers work on [tokens, hidden] or several hidden states, so that tokens are not the second dimension there.
_FLAT = ("gemma3n", "gemma3n_text", "opt")
#: Types whose layers are lists of layers, which add what their parts return to the hidden states.
_NESTED = ("albert", "t5", "mt5", "umt5")


def is_known(model):
    """Whether the model is one of transformers. Then it is split by a plan, its own or one of `_PLANS`, or refused."""
    return any(kind.__name__ == "PreTrainedModel" and kind.__module__.startswith("transformers.") for kind in type(model).__mro__)


def plan(model, sequence_dim, mesh=None, experts="columns", loss_parallel=False):
    """The styles of layers, by their names. Raises if the model cannot be split over the mesh."""
    kind, ranks = model.config.model_type, 1 if mesh is None else mesh.size()
    own, starts = _own_plan(model)
    _check_heads(model, ranks)
    if experts == "ranks":
        own = _with_experts_over_ranks(model, own, ranks)
    styles: dict[str, Any] = {}
    parameters, names = dict(model.named_parameters()), parameter_names(model)
    for name, style in _resolved(model, own, starts):
        module_name, _, key = name.rpartition(".") if name in parameters else (name, "", "")
        module = model.get_submodule(module_name)
        if style == "embedding_rowwise":
            styles.update(_embedding(name, module, ranks))
        if style.startswith("embedding_") or style == "replicate":
            continue  # whole on all ranks
        if hasattr(module, "base_layer"):
            adapters, problem = adapters_of(module)
            if problem or style not in _LINEARS:
                raise tandem.ArgumentError(f"parallelize: layer {name}: expected a linear layer, or one with peft's LoRA, found "
                                           f"{problem or type(module).__name__}")
            is_column = isinstance(_LINEARS[style](), ColwiseParallel)
            for one in adapters["base_layer"] + adapters["lora_B" if is_column else "lora_A"]:
                styles[f"{name}.{one}"] = _LINEARS[style]()
            for one in adapters["lora_A" if is_column else "lora_B"]:
                styles[f"{name}.{one}"] = _OnTokens(False)
            continue
        if style == "heads":
            styles[name] = _TakesHeads()
        elif style == "falcon":
            styles[name] = of_falcon(model.config, ranks)
        elif type(module).__name__ == "Conv1D":
            styles[name] = {"colwise": ColumnsOfConv1D, "rowwise": RowsOfConv1D}.get(style, lambda: PackedColumns(int(style[-1])))()
        elif key == "" and isinstance(module, nn.Linear) and style in _LINEARS:
            styles[name] = _LINEARS[style]()
            if isinstance(style := styles[name], ColwiseParallel) and not style.is_direct and module.out_features % ranks:
                del styles[name]  # a head
        elif key == "" and style == "replicated_with_grad_allreduce":
            styles[name] = _OnHeads()
        else:
            styles.setdefault(module_name, _OfTransformers(model)).parts[key] = style
    head = next((name for name, part in model.named_modules() if part is model.get_output_embeddings()), "")
    if loss_parallel and type(model.get_output_embeddings()) is nn.Linear and model.get_output_embeddings().out_features % ranks == 0:
        styles[head] = _Head()
        for name in names[id(model.get_output_embeddings().weight)]:
            styles.update(_embedding(name := name.rpartition(".")[0], model.get_submodule(name), ranks))
    if head in styles:
        embedding = model.get_input_embeddings()
        styles.update(_embedding(next(name for name, part in model.named_modules() if part is embedding), embedding, ranks))
    for tied in names.values():  # a head and an embedding: both are split, or none
        owners = [name.rpartition(".")[0] for name in tied]
        if len(tied) > 1 and not all(one in styles for one in owners):
            for one in owners:
                styles.pop(one, None)
    if loss_parallel and head not in styles:
        raise tandem.ArgumentError(f"parallelize: layer {head or type(model).__name__}: expected for loss_parallel a head, an nn.Linear "
                                   "with a vocabulary that ranks divide, tied to nothing but such an nn.Embedding, found another: "
                                   "leave out loss_parallel")
    styles[""] = _Model(loss_parallel)
    _check_layers_heads(model, styles, ranks)
    if (heads := _heads(model, "num_key_value_heads")) and heads < ranks:
        _share_heads(model, styles, heads, ranks)
    if sequence_dim is not None:
        sequence_dim = sequence_dim or 1  # 0, the default for layers, is the batch here
        _add_sequence_parallelism(model, styles, sequence_dim)
    for of, pattern, key in _HEADS if starts else ():
        for name, _ in _resolved(model, {pattern: ""}, starts) if of == kind else ():
            styles[name] = _DividesHeads(key, None, styles.get(name))
            if kind == "falcon" and model.get_submodule(name).num_kv_heads > 1:
                styles[name] = _DividesHeads("num_kv_heads", None, styles[name])
            if getattr(model.config, "alibi", False):
                styles[name] = _TakesMasksOfHeads(model.config.num_attention_heads, styles[name])
    return styles


def _own_plan(model):
    """(transformers' styles by patterns, what may come before a pattern)."""
    if split := next((name for name, part in model.named_modules() if isinstance(part, Linear)), None):
        raise tandem.ArgumentError(f"parallelize: layer {split}: expected a model that is not split yet, found a split layer")
    if model.tp_plan:
        return model.tp_plan, ""
    kind = model.config.model_type
    if kind not in _PLANS:
        # Mixers of state spaces, whose parameters no style splits.
        mixer = next((f", whose layer {name} is a {type(part).__name__}" for name, part in model.named_modules()
                      if list(part.children()) and list(part.parameters(recurse=False))), "")
        raise tandem.ArgumentError(f"parallelize: {type(model).__name__}: expected a model of transformers with a plan (tp_plan), "
                                   f"or of type {', '.join(_PLANS)}, found the type {kind}{mixer}: give a plan")
    return _PLANS[kind], r"(.+\.)?"


def _with_experts_over_ranks(model, own, ranks):
    """The plan with whole experts on each rank, by the model's `ep_plan`."""
    experts = getattr(model, "ep_plan", None)
    if not experts or not set(experts.values()) <= {"grouped_gemm", _DISPATCH}:
        raise tandem.ArgumentError(f"parallelize: {type(model).__name__}: expected a model whose ep_plan has whole experts on each rank, "
                                   f"found {experts or 'none'}: leave out experts=\"ranks\"")
    for name, style in _resolved(model, experts, ""):
        if style == "grouped_gemm" and (count := model.get_parameter(name).shape[0]) % ranks:
            raise tandem.ArgumentError(f"parallelize: layer {name}: expected experts that {ranks} ranks divide, found {count}")
    return {**{name: style for name, style in own.items() if not any(f"{name}.".startswith(f"{one}.") for one in experts)}, **experts}


def _embedding(name, module, ranks):
    """The style of an embedding that is split by rows, if it can be."""
    return {name: RowwiseParallel(input_layouts=Replicate())} if type(module) is nn.Embedding and module.num_embeddings % ranks == 0 else {}


def _resolved(model, patterns, starts):
    """(name, style) of each layer and parameter that a pattern names. `starts`: what may come before a pattern."""
    names = [name for name, _ in model.named_modules()] + [name for name, _ in model.named_parameters()]
    for pattern, style in patterns.items():
        matches = re.compile(starts + re.escape(pattern).replace(r"\*", r"[^.]+") + r"\Z").match
        for name in filter(matches, names):
            yield name, style


def parameter_names(module):
    """id of a parameter -> its names: several if it is tied."""
    names = {}
    for name, part in module.named_modules():
        for key, value in part.named_parameters(recurse=False):
            names.setdefault(id(value), []).append(f"{name}.{key}")
    return names


def _heads(model, key):
    """A number of heads in the model's configuration, or None."""
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    heads = getattr(config, key, None)
    return heads if isinstance(heads, int) else None


def _check_heads(model, ranks):
    """Raises unless each rank has whole heads. Changes nothing."""
    for key in ("num_attention_heads", "encoder_attention_heads", "decoder_attention_heads"):
        if (heads := _heads(model, key)) and heads % ranks:
            raise tandem.ArgumentError(f"parallelize: {type(model).__name__}: expected {key} that {ranks} ranks divide, found {heads}")
    if (heads := _heads(model, "num_key_value_heads")) and heads % ranks and ranks % heads:
        raise tandem.ArgumentError(f"parallelize: {type(model).__name__}: expected num_key_value_heads that divide {ranks} ranks, or "
                                   f"that these divide, found {heads}")


def _check_layers_heads(model, styles, ranks):
    """Also of parts with numbers of heads of their own, such as images."""
    for name, style in styles.items():
        owner = model.get_submodule(name.rpartition(".")[0])
        size = getattr(owner, "head_dim", None) or getattr(owner, "attention_head_size", None)
        if isinstance(style, ColwiseParallel) and not isinstance(style, SharedColumns) and style.is_direct and isinstance(size, int):
            layer = model.get_submodule(name)
            heads, rest = divmod(getattr(layer, "out_features", None) or layer.nf, size)
            if rest == 0 and heads % ranks and ranks % heads:
                raise tandem.ArgumentError(f"parallelize: layer {name}: expected heads that {ranks} ranks divide, found {heads}")


def _share_heads(model, styles, heads, ranks):
    """For fewer key heads than ranks: several ranks have the same one."""
    owners = {}
    for name, style in list(styles.items()):
        found = re.match(r"(.+)\.[kv]_proj\b", name)  # also a part of a layer with adapters
        if not found or not isinstance(style, ColwiseParallel) or not style.is_direct or \
                model.get_submodule(name).out_features != heads * getattr(model.get_submodule(found[1]), "head_dim", 0):
            continue
        owner = found[1]
        if not hasattr(model.get_submodule(owner), "num_key_value_groups"):
            raise tandem.ArgumentError(f"parallelize: layer {owner}: expected num_key_value_heads that {ranks} ranks divide, "
                                       f"found {heads}")
        styles[name] = SharedColumns(heads)
        owners[owner] = styles.get(owner)
    for owner, style in owners.items():
        styles[owner] = _DividesHeads("num_key_value_groups", ranks // heads, style)


def _add_sequence_parallelism(model, styles, dim):
    """Adds sequence parallelism to the styles."""
    for stack_name, stack in model.named_modules():
        if not isinstance(stack, nn.ModuleList) or not any(_under(stack_name, styles)):
            continue
        if any(isinstance(model.get_submodule(name), nn.ModuleList) for name in _ancestors(stack_name)):
            continue  # experts of a layer
        stack_owner = model.get_submodule(stack_name.rpartition(".")[0])  # DeBERTa's may have a convolution between its layers
        for number, layer in enumerate(stack):
            name = f"{stack_name}.{number}"
            if list(layer.parameters(recurse=False)) or model.config.model_type in _FLAT or getattr(stack_owner, "conv", None) is not None:
                styles[name] = _Whole(dim, styles.get(name))  # it may combine its own parameters with the hidden states
                continue
            styles[name] = _Split(dim, number == len(stack) - 1)
            for key, part in _parts(layer, model.config.model_type in _NESTED):
                if any(True for _ in part.parameters()):
                    _add_part(f"{name}.{key}", part, styles, dim)


def _parts(layer, is_nested):
    """(name, part) of a layer; of its sub-layers, if it has a list of them."""
    for key, part in layer.named_children():
        if is_nested and isinstance(part, nn.ModuleList):
            for number, one in enumerate(part):
                yield from ((f"{key}.{number}.{name}", other) for name, other in one.named_children())
        else:
            yield key, part


def _add_part(name, part, styles, dim):
    if not list(part.children()) and all(one.dim() == 1 for one in part.parameters()):
        styles[name] = _NormOfDTensors()
        return
    layers = {f"{name}.{key}" if key else name for key, one in part.named_modules() if list(one.parameters(recurse=False))}
    simple = (ColwiseParallel, RowwiseParallel, _OnHeads, _OnTokens)
    if not all(isinstance(styles.get(one), simple) and getattr(styles[one], "is_direct", True) for one in layers):
        kinds = [type(styles[one]) for one in layers if isinstance(styles.get(one), _Linear)]
        styles[name] = _Whole(dim, styles.get(name), bool(kinds) and all(issubclass(kind, ColwiseParallel) for kind in kinds))
        return
    for one in layers:
        if isinstance(styles[one], _Linear):
            styles[one] = styles[one].on_tokens(dim)


def _under(name, styles):
    return (fnmatch.fnmatchcase(one, f"{name}.*") for one in styles)


def _ancestors(name):
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts)))
