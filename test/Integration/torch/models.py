# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small models of transformers: `parallelize` without a plan against the whole model (docs/models.md)."""

import contextlib
import copy
import io
import os
import re

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import torch.distributed as dist
import transformers
from features import Adapted
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import loss_parallel

import tandem
import tandem.torch as tt

transformers.logging.set_verbosity_error()

_SIZES = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_HEAD = {"head_dim": 8}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_GPT = {"vocab_size": 96, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
_BERT = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "max_position_embeddings": 80}
_IMAGE = {"image_size": 16, "patch_size": 4, "num_channels": 3}
_VISION = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, **_IMAGE}
_PAIR = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
         "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0,
         "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "vocab_size": 96, "max_position_embeddings": 64, "pad_token_id": 0,
         "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}

_FALCON = {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_dropout": 0.0,
           "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2}
_DEBERTA = {"relative_attention": True, "position_buckets": 8, "norm_rel_ebd": "layer_norm", "share_att_key": True, "pos_att_type": "p2c|c2p"}
_T5 = {"vocab_size": 96, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0, "pad_token_id": 0,
       "decoder_start_token_id": 0}


def _ids(batch, tokens, generator):
    return torch.randint(3, 96, (batch, tokens), generator=generator)


def _of_text(batch, tokens, generator):
    ids = _ids(batch, tokens, generator)
    return {"input_ids": ids, "labels": ids}


def _of_pair(batch, tokens, generator):
    return {"input_ids": _ids(batch, tokens, generator), "labels": _ids(batch, tokens + 1, generator)}


def _of_text_and_states(batch, tokens, generator):
    return {**_of_text(batch, tokens, generator), "encoder_hidden_states": torch.randn(batch, 5, 32, generator=generator)}


def _of_image(batch, tokens, generator):
    return {"pixel_values": torch.randn(batch, 3, 16, 16, generator=generator)}


def _of_image_and_text(batch, tokens, generator):
    return {"input_ids": _ids(batch, tokens, generator), **_of_image(batch, tokens, generator)}


def _of_sound(batch, tokens, generator):
    return {"input_features": torch.randn(batch, 8, 32, generator=generator), "labels": _ids(batch, tokens, generator)}


def _of_speech(batch, tokens, generator):
    return {"input_features": torch.randn(batch, 4 * tokens, 8, generator=generator), "labels": _ids(batch, tokens, generator)}


def _of_images_in_text(batch, tokens, generator, count=16):
    """Each sequence begins with the tokens of an image, of number 2."""
    ids = torch.cat([torch.full((batch, count), 2), _ids(batch, tokens, generator)], 1)
    return {"input_ids": ids, "labels": ids.masked_fill(ids == 2, -100), **_of_image(batch, tokens, generator)}


def _of_four_in_text(batch, tokens, generator):
    given = _of_images_in_text(batch, tokens, generator, 4)
    return {**given, "token_type_ids": (given["input_ids"] == 2).long()}


def _of_prefix(batch, tokens, generator):
    given = _of_images_in_text(batch, tokens, generator)
    return {**given, "token_type_ids": (given["input_ids"] != 2).long()}


def _of_patches_in_text(batch, tokens, generator):
    given = _of_images_in_text(batch, tokens, generator, 4)
    return {**given, "pixel_values": torch.randn(batch * 16, 96, generator=generator), "image_grid_thw": torch.tensor([[1, 4, 4]] * batch),
            "mm_token_type_ids": (given["input_ids"] == 2).long()}


def _of_wave(batch, tokens, generator):
    return {"input_values": torch.randn(batch, 16 * tokens, generator=generator)}


def _decoder(kind, **sizes):
    return "AutoModelForCausalLM", kind, {**_SIZES, **sizes}, _of_text


def _pair(kind):
    return "AutoModelForSeq2SeqLM", kind, _PAIR, _of_pair


def _encoder(kind, **sizes):
    return "AutoModelForMaskedLM", kind, {**_BERT, **sizes}, _of_text


#: name -> (class, type of the configuration, its values, inputs of a batch of sequences)
MODELS = {
    **{kind: _decoder(kind) for kind in ("llama", "qwen2", "gpt_neox", "granite", "cohere", "starcoder2", "phi", "phi3", "olmo2", "smollm3")},
    **{kind: _decoder(kind, **_HEAD) for kind in ("mistral", "qwen3", "gemma2", "gemma3_text", "glm4")},
    "mixtral": _decoder("mixtral", num_local_experts=4, num_experts_per_tok=2),
    "qwen2_moe": _decoder("qwen2_moe", shared_expert_intermediate_size=32, **_EXPERTS),
    "qwen3_moe": _decoder("qwen3_moe", **_HEAD, **_EXPERTS),
    "deepseek_v3": _decoder("deepseek_v3", n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, q_lora_rank=16,
                            kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, n_group=2, topk_group=1,
                            num_key_value_heads=4, first_k_dense_replace=1),
    "gptj": ("AutoModelForCausalLM", "gptj", {**_GPT, "rotary_dim": 4}, _of_text),
    "opt": ("AutoModelForCausalLM", "opt", {"vocab_size": 96, "hidden_size": 32, "ffn_dim": 64, "num_hidden_layers": 2, "dropout": 0.0,
                                            "num_attention_heads": 4, "max_position_embeddings": 64, "word_embed_proj_dim": 32}, _of_text),
    "bloom": ("AutoModelForCausalLM", "bloom", {"vocab_size": 96, "hidden_size": 32, "n_layer": 2, "n_head": 4}, _of_text),
    **{kind: _encoder(kind) for kind in ("bert", "roberta", "xlm-roberta")},
    "electra": _encoder("electra", embedding_size=32),
    "distilbert": ("AutoModelForMaskedLM", "distilbert", {"vocab_size": 96, "dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 4,
                                                          "max_position_embeddings": 64, "dropout": 0.0, "attention_dropout": 0.0}, _of_text),
    "vit": ("AutoModelForImageClassification", "vit", {**_VISION, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}, _of_image),
    "dinov2": ("AutoModelForImageClassification", "dinov2", {**_VISION, "mlp_ratio": 2}, _of_image),
    "siglip_vision": ("AutoModel", "siglip_vision_model", _VISION, _of_image),
    "clip": ("AutoModel", "clip", {"text_config": {**_VISION, "vocab_size": 96, "max_position_embeddings": 64, "eos_token_id": 2},
                                   "vision_config": _VISION, "projection_dim": 16}, _of_image_and_text),
    **{kind: _pair(kind) for kind in ("bart", "mbart", "marian", "m2m_100", "pegasus")},
    "whisper": ("AutoModelForSpeechSeq2Seq", "whisper", {**_PAIR, "num_mel_bins": 8, "max_source_positions": 16,
                                                         "max_target_positions": 64}, _of_sound),
    "wav2vec2": ("AutoModelForCTC", "wav2vec2", {"vocab_size": 20, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
                                                 "intermediate_size": 64, "conv_dim": (16, 16), "conv_stride": (4, 4), "conv_kernel": (4, 4),
                                                 "num_feat_extract_layers": 2, "hidden_dropout": 0.0, "attention_dropout": 0.0,
                                                 "feat_proj_dropout": 0.0, "final_dropout": 0.0, "layerdrop": 0.0, "activation_dropout": 0.0,
                                                 "mask_time_prob": 0.0, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}, _of_wave),
}
MODELS.update({
    "gpt2": ("AutoModelForCausalLM", "gpt2", _GPT, _of_text),
    "gpt2_cross": ("AutoModelForCausalLM", "gpt2", {**_GPT, "add_cross_attention": True}, _of_text_and_states),
    "falcon": ("AutoModelForCausalLM", "falcon", _FALCON, _of_text),
    "falcon_groups": ("AutoModelForCausalLM", "falcon", {**_FALCON, "new_decoder_architecture": True, "num_kv_heads": 4, "bias": True}, _of_text),
    "falcon_alibi": ("AutoModelForCausalLM", "falcon", {**_FALCON, "alibi": True, "multi_query": False, "parallel_attn": False}, _of_text),
    "albert": _encoder("albert", embedding_size=32),
    "falcon_heads": ("AutoModelForCausalLM", "falcon", {**_FALCON, "multi_query": False, "parallel_attn": False, "bias": True}, _of_text),
    **{kind: _encoder(kind) for kind in ("mpnet", "camembert", "data2vec-text", "ernie", "layoutlm", "nomic_bert")},
    "gpt_oss": _decoder("gpt_oss", **_HEAD, num_local_experts=4, num_experts_per_tok=2, sliding_window=8, layer_types=None),
    "gpt_neo": ("AutoModelForCausalLM", "gpt_neo", {"vocab_size": 96, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "window_size": 4,
                                                    "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 64,
                                                    "resid_dropout": 0.0, "embed_dropout": 0.0, "attention_dropout": 0.0,
                                                    "bos_token_id": 1, "eos_token_id": 2}, _of_text),
    "xglm": ("AutoModelForCausalLM", "xglm", {"vocab_size": 96, "d_model": 32, "ffn_dim": 64, "num_layers": 2, "attention_heads": 4, "dropout": 0.0,
                                              "attention_dropout": 0.0, "activation_dropout": 0.0, "layerdrop": 0.0, "pad_token_id": 0,
                                              "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2}, _of_text),
    "hubert": (MODELS["wav2vec2"][0], "hubert", MODELS["wav2vec2"][2], _of_wave),
    "deberta-v2": _encoder("deberta-v2", **_DEBERTA),
    "deberta-v2_conv": _encoder("deberta-v2", **{**_DEBERTA, "share_att_key": False}, conv_kernel_size=3, conv_act="gelu"),
    "t5": ("AutoModelForSeq2SeqLM", "t5", _T5, _of_pair),
    "flan-t5": ("AutoModelForSeq2SeqLM", "t5", {**_T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}, _of_pair),
    "mt5": ("AutoModelForSeq2SeqLM", "mt5", _T5, _of_pair),
})
_MAMBA = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_expand": 2}
_LATENT = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8,
           "qk_nope_head_dim": 8, "v_head_dim": 8, "n_group": 2, "topk_group": 1, "num_key_value_heads": 4, "first_k_dense_replace": 1}
_PARTS = {"mrope_section": [1, 1, 2], "rope_type": "default", "rope_theta": 1e4}
_QWEN = {"text_config": {**_SIZES, "rope_parameters": _PARTS}, "image_token_id": 2, "video_token_id": 93, "vision_start_token_id": 94,
         "vision_end_token_id": 95}
_QWEN_VISION = {"depth": 2, "hidden_size": 32, "num_heads": 4, "patch_size": 4, "spatial_merge_size": 2, "temporal_patch_size": 2}


def _with_images(kind, text, vision, inputs, **sizes):
    return "AutoModelForImageTextToText", kind, {"text_config": {**_SIZES, **text}, "vision_config": {**_VISION, **vision}, **sizes}, inputs


MODELS.update({
    **{kind: _decoder(kind) for kind in ("olmo", "olmo3")},
    **{kind: _decoder(kind, **_HEAD) for kind in ("gemma", "cohere2", "ernie4_5", "hunyuan_v1_dense", "nemotron", "seed_oss")},
    "codegen": ("AutoModelForCausalLM", "codegen", {**_GPT, "rotary_dim": 4}, _of_text),
    "exaone4": _decoder("exaone4", **_HEAD, sliding_window=8, layer_types=["sliding_attention", "full_attention"]),
    "gemma3n_text": _decoder("gemma3n_text", **_HEAD, vocab_size_per_layer_input=96, hidden_size_per_layer_input=8, num_kv_shared_layers=0,
                             laurel_rank=8, layer_types=["sliding_attention", "full_attention"], activation_sparsity_pattern=[0.0, 0.0]),
    "llama4_text": _decoder("llama4_text", **_HEAD, num_local_experts=4, intermediate_size_mlp=48, interleave_moe_layer_step=2, num_experts_per_tok=1),
    **{kind: _decoder(kind, num_local_experts=4, num_experts_per_tok=2) for kind in ("phimoe", "granitemoe")},
    "olmoe": _decoder("olmoe", num_experts=4, num_experts_per_tok=2),
    "deepseek_v2": _decoder("deepseek_v2", **_LATENT),
    "glm4_moe": _decoder("glm4_moe", **{**_HEAD, **_LATENT, "n_group": 1, "num_key_value_heads": 2}),
    "jamba": _decoder("jamba", num_experts=4, num_experts_per_tok=2, attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2,
                      expert_layer_offset=1, mamba_d_state=8, mamba_dt_rank=4, use_mamba_kernels=False),
    "bamba": _decoder("bamba", attn_layer_indices=[1], **_MAMBA),
    "nemotron_h": _decoder("nemotron_h", **_HEAD, hybrid_override_pattern="M*-E", mamba_num_heads=4, mamba_head_dim=16, ssm_state_size=8, n_groups=1),
    "lfm2": _decoder("lfm2", layer_types=["conv", "full_attention"], block_multiple_of=8),
    "qwen3_next": _decoder("qwen3_next", **_HEAD, **_EXPERTS, shared_expert_intermediate_size=16, linear_num_value_heads=4, linear_num_key_heads=2,
                           linear_key_head_dim=8, linear_value_head_dim=8, layer_types=["linear_attention", "full_attention"]),
    "gemma3": _with_images("gemma3", {**_HEAD, "sliding_window": 8}, {"vision_use_head": False}, _of_four_in_text, mm_tokens_per_image=4,
                           image_token_index=2, boi_token_index=94, eoi_token_index=95),
    "llava": _with_images("llava", {"model_type": "llama"}, {"model_type": "clip_vision_model"}, _of_images_in_text, image_token_index=2,
                          vision_feature_layer=-1),
    "paligemma": _with_images("paligemma", {**_HEAD, "model_type": "gemma"}, {"model_type": "siglip_vision_model", "vision_use_head": False},
                              _of_prefix, image_token_index=2, projection_dim=32),
    "qwen2_vl": ("AutoModelForImageTextToText", "qwen2_vl", {**_QWEN, "vision_config": {**_QWEN_VISION, "embed_dim": 32, "mlp_ratio": 2}},
                 _of_patches_in_text),
    "qwen2_5_vl": ("AutoModelForImageTextToText", "qwen2_5_vl", {**_QWEN, "vision_config": {
        **_QWEN_VISION, "out_hidden_size": 32, "intermediate_size": 32, "window_size": 16, "fullatt_block_indexes": [1]}}, _of_patches_in_text),
    **{kind: _encoder(kind) for kind in ("rembert", "roberta-prelayernorm", "roc_bert")},
    "esm": _encoder("esm", token_dropout=False, mask_token_id=4, pad_token_id=0, position_embedding_type="rotary"),
    "xmod": _encoder("xmod", languages=["en_XX"], default_language="en_XX"),
    "siglip": ("AutoModel", "siglip", {"text_config": {**_VISION, "vocab_size": 96, "max_position_embeddings": 64}, "vision_config": _VISION},
               _of_image_and_text),
    "chinese_clip": ("AutoModel", "chinese_clip", {"text_config": _BERT, "vision_config": _VISION, "projection_dim": 16}, _of_image_and_text),
    "deit": (MODELS["vit"][0], "deit", {**MODELS["vit"][2], "architectures": ["DeiTForImageClassification"]}, _of_image),
    "dinov2_with_registers": (*MODELS["dinov2"][:1], "dinov2_with_registers", *MODELS["dinov2"][2:]),
    "dinov3_vit": ("AutoModel", "dinov3_vit", {**_VISION, "pos_embed_rescale": None, "num_register_tokens": 2}, _of_image),
    "umt5": ("AutoModelForSeq2SeqLM", "umt5", _T5, _of_pair),
    **{kind: _pair(kind) for kind in ("blenderbot", "blenderbot-small", "plbart")},
    "speech_to_text": ("AutoModelForSpeechSeq2Seq", "speech_to_text", {**_PAIR, "input_feat_per_channel": 8, "conv_channels": 16,
                                                                       "max_source_positions": 64, "max_target_positions": 64}, _of_speech),
    "data2vec-audio": (MODELS["wav2vec2"][0], "data2vec-audio", MODELS["wav2vec2"][2], _of_wave),
})
#: Those that `parallelize` refuses.
REFUSED = {
    **{kind: ("AutoModelForCausalLM", kind, {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, **sizes}, _of_text)
       for kind, sizes in (("mamba", {}), ("falcon_mamba", {}), ("mamba2", {"num_heads": 4, "head_dim": 16, "n_groups": 1}))},
}


def make(kind):
    """The model and its inputs. `KIND with adapters`: with LoRA in some layers, as peft adds it; the other parameters are frozen.
    `KIND ... one by one`: its experts run one after another, and all tokens go to the first ones."""
    name, configuration, values, inputs = {**MODELS, **REFUSED}[kind.partition(" ")[0]]
    torch.manual_seed(0)
    model = getattr(transformers, name).from_config(transformers.AutoConfig.for_model(configuration, **values)).float()
    if "one by one" in kind:
        model.set_experts_implementation("eager")
        for layer in model.model.layers:
            torch.nn.init.zeros_(layer.mlp.gate.weight)
    if "adapters" in kind:
        model.requires_grad_(False)
        for where, layer in list(model.named_modules()):
            if isinstance(layer, torch.nn.Linear) and re.search(r"([qkv]_proj|query|value|qkv_proj|down_proj|output\.dense|\.q)$", where):
                owner, _, key = where.rpartition(".")
                setattr(model.get_submodule(owner), key, Adapted(layer))
    return model, inputs


def _whole(x):
    if not isinstance(x, DTensor):
        return x
    placement = x.placements[0]
    if not hasattr(placement, "split_factor"):
        return x.full_tensor()
    # torch cannot gather parts of packed weights: each rank has a part of each of their parts.
    local = x.to_local().detach().contiguous()
    parts = [torch.empty_like(local) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, local)
    chunks = [part.chunk(placement.split_factor, placement.dim) for part in parts]
    return torch.cat([chunk[at] for at in range(placement.split_factor) for chunk in chunks], placement.dim)


def _close(what, found, expected, least=0.0):
    error = (_whole(found.detach()) - expected.detach()).abs().max().item()
    size = max(expected.abs().max().item(), least)
    assert error <= 3e-4 * size, f"{what}: expected values up to {size}, found errors up to {error}"


def _result(output):
    return next(output[key] for key in ("logits", "logits_per_image", "last_hidden_state") if key in output)


def _with_peft(model, rank=0):
    """Other ranks than the first have other values, which are not used."""
    import peft
    torch.manual_seed(1 + rank)
    layers = ["q_proj", "o_proj"] if model.config.model_type == "mixtral" else "all-linear"  # which takes experts, too
    return peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=layers, init_lora_weights=False))


def of_transformers(rank, ranks, kind, dim):
    """Results, loss, gradients, a step and generated tokens, for sequences of several lengths, with a mask and without.
    `KIND over ranks`: whole experts on each rank. `KIND with split logits`: under torch's loss_parallel."""
    whole, inputs = make(kind)
    split = copy.deepcopy(whole)
    options = {"experts": "ranks" if "over ranks" in kind else "columns", "loss_parallel": "split logits" in kind}
    if "peft first" in kind:
        whole, split = _with_peft(whole), _with_peft(split)
    assert tt.parallelize(split, init_device_mesh("cpu", (ranks,)), sequence_dim=dim, **options) is split
    if "peft after" in kind:
        whole, split = _with_peft(whole), _with_peft(split, rank)
    for one in (whole, split):
        one.train(not getattr(one.config, "router_jitter_noise", 0))  # phimoe draws experts in training
    for batch, tokens, is_masked in ((1, 8, False), (3, 7, True), (2, 16, False)):
        given = inputs(batch, tokens, torch.Generator().manual_seed(tokens))
        if inputs is _of_text:
            given["output_hidden_states"] = True
        mask = None
        if is_masked and inputs is _of_text:
            mask = torch.ones(batch, tokens, dtype=torch.long)
            mask[0, -2:], mask[1, :2] = 0, 0
            given["attention_mask"] = mask
        losses = []
        for one in (split, whole):
            one.zero_grad()
            with loss_parallel() if options["loss_parallel"] else contextlib.nullcontext():
                output = one(**given)
                result = _result(output)
                losses.append((result, output.loss if output.get("loss") is not None else _whole(result).square().mean()))
                losses[-1][1].backward()
            hidden = output.get("hidden_states") or ()
            assert not any(isinstance(value, DTensor) for value in (*hidden, losses[-1][1]))
            assert isinstance(result, DTensor) == (options["loss_parallel"] and one is split)
        (found, found_loss), (expected, loss) = losses
        if mask is not None:  # what a padded token computes is not used
            found, expected = _whole(found) * mask[..., None], expected * mask[..., None]
        _close("result", found, expected)
        _close("loss", found_loss, loss)
        expected = {name: value.grad for name, value in whole.named_parameters() if value.grad is not None}
        assert expected
        least = 1e-3 * max(grad.abs().max().item() for grad in expected.values())
        for name, value in split.named_parameters():
            if name in expected:
                assert value.grad is not None, f"{name}: no gradient"
                _close(f"gradient of {name}", value.grad, expected[name], least)
    norms = [torch.nn.utils.clip_grad_norm_(one.parameters(), 1.0, foreach=True) for one in (split, whole)]
    _close("norm of the gradients", *norms)
    for one in (split, whole):
        torch.optim.SGD(one.parameters(), lr=0.1, foreach=True).step()
    for (name, found), expected in zip(split.named_parameters(), whole.parameters()):
        _close(f"{name} after a step", found, expected, 1e-3)
    if not whole.can_generate() or inputs not in (_of_text, _of_pair):
        return
    for one in (split, whole):
        one.eval()
    ids = _ids(2, 5, torch.Generator().manual_seed(1))
    with torch.no_grad():
        found, expected = (one.generate(ids, max_new_tokens=4, do_sample=False) for one in (split, whole))
    assert found.tolist() == expected.tolist(), (found, expected)


def sharded_model(rank, ranks, kind, dim):
    """FSDP on the other dimension of the mesh: other sequences on its ranks, two steps with clipped gradients."""
    whole, inputs = make(kind)
    mesh = init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("data", "tensor"))
    split = tt.parallelize(copy.deepcopy(whole), mesh["tensor"], sequence_dim=dim)
    for layer in split.model.layers:
        fully_shard(layer, mesh=mesh["data"])
    fully_shard(split, mesh=mesh["data"])
    optimizers = [torch.optim.AdamW(one.parameters(), lr=1e-3, foreach=True) for one in (whole, split)]
    for step in range(2):
        given = inputs(4, 8, torch.Generator().manual_seed(step))
        mine = {key: value.chunk(2)[mesh.get_local_rank("data")] for key, value in given.items()}
        whole(**given).loss.backward()
        split(**mine).loss.backward()
        norm, found = (torch.nn.utils.clip_grad_norm_(one.parameters(), 1.0) for one in (whole, split))
        _close("norm", found.full_tensor(), norm)
        for (name, found), expected in zip(split.named_parameters(), whole.parameters()):
            _close(f"gradient of {name}", found.grad.full_tensor(), expected.grad, 1e-2)
        for one in optimizers:
            one.step()
            one.zero_grad()


def refused_model(rank, ranks, kind, dim):
    """The model is refused before anything has changed."""
    split, _ = make(kind)
    before = {name: value.clone() for name, value in split.state_dict().items()}
    classes = [type(part) for part in split.modules()]
    try:
        tt.parallelize(split, init_device_mesh("cpu", (ranks,)), sequence_dim=dim)
    except tandem.ArgumentError as error:
        assert type(split).__name__ in str(error) and ("mamba" not in kind or "whose layer backbone.layers.0.mixer is a" in str(error)), error
    else:
        raise AssertionError(f"{kind}: not refused")
    assert classes == [type(part) for part in split.modules()]
    assert all(torch.equal(value, before[name]) for name, value in split.state_dict().items())


def heads_of_model(rank, ranks):
    """Heads that ranks do not divide, layers with adapters, and a plan of one's own."""
    mesh = init_device_mesh("cpu", (ranks,))

    def refuses(text, change, **options):
        one, _ = make("llama")
        change(one)
        try:
            tt.parallelize(one, mesh, **options)
        except tandem.ArgumentError as error:
            assert text in str(error), error
        else:
            raise AssertionError(f"expected an error with {text}")

    refuses("expected a model whose ep_plan has whole experts on each rank, found none", lambda one: None, experts="ranks")
    refuses("layer lm_head: expected for loss_parallel a head", lambda one: setattr(one, "lm_head", torch.nn.Linear(32, 97)), loss_parallel=True)
    refuses("layer model.layers.0.self_attn.q_proj: expected a model that is not split yet", lambda one: tt.parallelize(one, mesh))
    refuses(f"expected num_attention_heads that {ranks} ranks divide, found 3",
            lambda one: setattr(one.config, "num_attention_heads", 3))
    refuses(f"expected num_key_value_heads that divide {ranks} ranks, or that these divide, found 3",
            lambda one: setattr(one.config, "num_key_value_heads", 3))

    def adapt(one):
        wrapper = torch.nn.Module()
        wrapper.base_layer, wrapper.magnitude = one.model.layers[0].mlp.up_proj, torch.nn.Parameter(torch.ones(1))
        one.model.layers[0].mlp.up_proj = wrapper
    refuses("layer model.layers.0.mlp.up_proj: expected a linear layer, or one with peft's LoRA", adapt, sequence_dim=1)
    for dim in (None, 1):  # each rank its own tokens
        one, inputs = make("llama")
        tt.parallelize(one, mesh, sequence_dim=dim)
        ids = inputs(1, 4 * ranks, torch.Generator().manual_seed(0))["input_ids"].chunk(ranks, 1)[rank]
        try:
            one(input_ids=ids)
        except tandem.ArgumentError as error:
            assert "expected the same inputs on all ranks" in str(error), error
            one.config.attention_dropout = 0.5
            torch.manual_seed(rank)
            try:
                one.train()(**inputs(1, 4, torch.Generator().manual_seed(0)))
            except tandem.ArgumentError as error:
                assert "expected the same states of the random numbers" in str(error), error
            else:
                raise AssertionError("expected an error for other seeds")
        else:
            raise AssertionError("expected an error for other inputs on each rank")
    for dim in (None, 1):  # a copy, and what was written and read, compute the same
        one, inputs = make("qwen3")
        tt.parallelize(one, mesh, sequence_dim=dim)
        given = inputs(2, 6, torch.Generator().manual_seed(0))
        file = io.BytesIO()
        torch.save(one, file)
        file.seek(0)
        results = []
        for other in (one, copy.deepcopy(one), torch.load(file, weights_only=False)):
            output = other(**given)
            output.loss.backward()
            results.append((output.logits.detach(), other.model.layers[0].self_attn.q_norm.weight.grad))
        assert all(torch.equal(found, expected) for other in results[1:] for found, expected in zip(other, results[0]))
        with torch.no_grad():  # the copy has weights of its own, also where transformers' styles are
            for kind in ("qwen3", "mixtral"):
                one, inputs = make(kind)
                tt.parallelize(one, mesh, sequence_dim=dim)
                other, before = copy.deepcopy(one), one(**given).logits
                for value in one.parameters():
                    value.mul_(2.0)
                assert torch.equal(other(**given).logits, before) and not torch.equal(one(**given).logits, before)
    class Wrapper(torch.nn.Module):
        """As peft's model around another."""

        def __init__(self, model):
            super().__init__()
            self.model = model

        def get_base_model(self):
            return self.model

        def forward(self, *args, **kwargs):
            return self.model(*args, **kwargs)

    one, inputs = make("llama with adapters")
    given = inputs(1, 4, torch.Generator().manual_seed(0))
    whole = Wrapper(copy.deepcopy(one))
    other = tt.parallelize(Wrapper(one), mesh)
    _close("result of a wrapper", other(**given).logits, whole(**given).logits)
    assert isinstance(one.model.layers[0].self_attn.q_proj.base_layer.weight, DTensor)
    one, _ = make("llama")
    groups = one.model.layers[0].self_attn.num_key_value_groups
    tt.parallelize(one, mesh, sequence_dim=None)
    assert one.model.layers[0].self_attn.num_key_value_groups == groups * 2 // ranks
    for kind in ("llama", "starcoder2"):  # embedding and head are split, also a tied head
        one = tt.parallelize(make(kind)[0], mesh, sequence_dim=None)
        assert one.get_input_embeddings().weight.placements == one.lm_head.weight.placements == (Shard(0),)
        assert (one.get_input_embeddings().weight is one.lm_head.weight) == (kind == "starcoder2")
    styles = tt.plan(make("llama")[0], None)
    assert isinstance(styles["model.layers.0.self_attn.q_proj"], tt.ColwiseParallel)
    assert isinstance(styles["model.layers.1.mlp.down_proj"], tt.RowwiseParallel)
