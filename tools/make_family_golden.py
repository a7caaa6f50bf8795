#!/usr/bin/env python3
"""Makes small random models of every family with transformers, and what they compute in float64: golden_test_families compares.

    make_family_golden.py FOLDER [NAME...]

FOLDER/NAME gets config.json and model.safetensors as save_pretrained writes them, FOLDER/NAME/grads the same config.json with the gradients
as tensors (F64) under the same names, and FOLDER/NAME/expected.txt: batch, length and whether there is a head of sentence pairs; then for each
position a token, its label, the loss, its weight, the type of the token and how many positions the text has; then for each sample of a
head of pairs its label and two logits. Texts of encoders are padded, and count where a token is masked. A model of an encoder and a decoder
has the token of the decoder in place of the type of the token; both texts are equally long, and that of the encoder is padded.
Every weight is drawn with standard deviation 0.2 (weights of norms around their neutral value), so that a feature that is left out is seen.
Everything is computed in float64, except the angles of rotations, which transformers has in float32."""
import json
import os
import shutil
import sys

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import importlib

import safetensors.torch
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForPreTraining, AutoModelForSeq2SeqLM

SIZES = dict(vocab_size=61, hidden_size=48, intermediate_size=40, num_hidden_layers=3, num_attention_heads=6,
    num_key_value_heads=2,
             max_position_embeddings=64)
T5 = dict(d_model=48, d_kv=12, d_ff=40, num_layers=3, num_decoder_layers=2, num_heads=6,
    relative_attention_num_buckets=8,
          relative_attention_max_distance=20, n_positions=64)
LINEAR = {"rope_type": "linear", "factor": 3.0, "rope_theta": 1000.0}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1000.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1000.0, "original_max_position_embeddings": 16,
    "beta_fast": 16.0, "beta_slow": 2.0}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
          "rope_theta": 1000.0}


def longrope(original):
    return {"rope_type": "longrope", "rope_theta": 1000.0, "short_factor": [1.0, 1.25, 1.5, 2.0],
        "long_factor": [2.0, 3.0, 5.0, 9.0],
            "original_max_position_embeddings": original}


# name: (model_type, keys of the configuration beside the sizes)
CASES = {
    "gpt2": ("gpt2", dict(n_embd=48, n_layer=3, n_head=6, n_positions=64, vocab_size=61)),
    "llama": ("llama", {}),
    "llama-tied": ("llama", dict(tie_word_embeddings=True, num_key_value_heads=6)),
    "llama-biases": ("llama", dict(attention_bias=True, mlp_bias=True, head_dim=12, num_attention_heads=6,
        num_key_value_heads=3)),
    "llama-linear": ("llama", dict(rope_parameters=LINEAR)),
    "llama-dynamic": ("llama", dict(rope_parameters=DYNAMIC, max_position_embeddings=16)),
    "llama-yarn": ("llama", dict(rope_parameters=YARN)),
    "llama-llama3": ("llama", dict(rope_parameters=LLAMA3)),
    "mistral": ("mistral", dict(sliding_window=7)),
    "mistral-whole": ("mistral", dict(sliding_window=None, head_dim=16)),
    "qwen2": ("qwen2", dict(tie_word_embeddings=True)),
    "qwen2-window": ("qwen2", dict(use_sliding_window=True, sliding_window=5, max_window_layers=1)),
    "qwen3": ("qwen3", dict(head_dim=16)),
    "mixtral": ("mixtral", dict(num_local_experts=5, num_experts_per_tok=2)),
    "mixtral-window": ("mixtral", dict(num_local_experts=3, num_experts_per_tok=2, sliding_window=7)),
    "qwen3_moe": ("qwen3_moe", dict(head_dim=16, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=20,
        norm_topk_prob=True, mlp_only_layers=[1])),
    "qwen3_moe-sums": ("qwen3_moe", dict(head_dim=12, num_experts=7, num_experts_per_tok=5, moe_intermediate_size=24,
        decoder_sparse_step=2)),
    "qwen2_moe": ("qwen2_moe", dict(num_experts=6, num_experts_per_tok=3, moe_intermediate_size=20,
        shared_expert_intermediate_size=28, mlp_only_layers=[1], tie_word_embeddings=True)),
    "qwen2_moe-windows": ("qwen2_moe", dict(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=24,
        shared_expert_intermediate_size=20, norm_topk_prob=True, qkv_bias=False, use_sliding_window=True, sliding_window=7,
        max_window_layers=2)),
    "granitemoe": ("granitemoe", dict(num_local_experts=5, num_experts_per_tok=2, embedding_multiplier=3.0,
        attention_multiplier=0.2, residual_multiplier=0.7, logits_scaling=1.5)),
    "granitemoeshared": ("granitemoeshared", dict(num_local_experts=4, num_experts_per_tok=3, attention_bias=True,
        attention_multiplier=0.3, shared_intermediate_size=28, tie_word_embeddings=True)),
    "glm4_moe": ("glm4_moe", dict(head_dim=16, n_routed_experts=6, num_experts_per_tok=3, moe_intermediate_size=20,
        n_group=3, topk_group=2, n_shared_experts=2, routed_scaling_factor=1.5, use_qk_norm=True, num_mtp_layers=0)),
    "glm4_moe-plain": ("glm4_moe", dict(n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=24,
        attention_bias=True, first_k_dense_replace=0, norm_topk_prob=False, num_mtp_layers=0,
        rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 0.25})),
    "deepseek_v3": ("deepseek_v3", dict(q_lora_rank=20, kv_lora_rank=12, qk_nope_head_dim=10, qk_rope_head_dim=6,
        v_head_dim=8, num_key_value_heads=6, n_routed_experts=6, num_experts_per_tok=3, moe_intermediate_size=20,
        n_group=3, topk_group=2, n_shared_experts=2, routed_scaling_factor=1.5, first_k_dense_replace=1,
        num_mtp_layers=0, rope_parameters={"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "beta_fast": 4.0,
        "beta_slow": 1.0, "mscale": 0.7, "mscale_all_dim": 1.2, "original_max_position_embeddings": 16})),
    "deepseek_v3-plain": ("deepseek_v3", dict(q_lora_rank=None, kv_lora_rank=16, qk_nope_head_dim=4, qk_rope_head_dim=8,
        v_head_dim=12, num_key_value_heads=6, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
        n_group=1, topk_group=1, attention_bias=True, norm_topk_prob=False, rope_interleave=False,
        first_k_dense_replace=0, num_mtp_layers=0)),
    "gpt_oss": ("gpt_oss", dict(head_dim=16, num_local_experts=5, num_experts_per_tok=2, sliding_window=7,
        swiglu_limit=1.5)),
    "gpt_oss-plain": ("gpt_oss", dict(head_dim=12, num_local_experts=4, num_experts_per_tok=3, attention_bias=False,
        swiglu_alpha=1.2, swiglu_limit=1.0, layer_types=["full_attention"] * 2 + ["sliding_attention"], sliding_window=5,
        tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 1000.0})),
    "olmoe": ("olmoe", dict(num_experts=6, num_experts_per_tok=2)),
    "smollm3": ("smollm3", dict(num_hidden_layers=4, no_rope_layer_interval=2)),
    "gpt_neox": ("gpt_neox", dict(num_attention_heads=3)),
    "gpt_neox-sequential": ("gpt_neox",
        dict(use_parallel_residual=False, rope_parameters={"rope_theta": 1000.0, "rope_type": "default",
                                                                                           "partial_rotary_factor": 1.0})),
    "bloom": ("bloom", dict(n_layer=3, n_head=6)),
    "opt": ("opt", dict(ffn_dim=40, word_embed_proj_dim=48)),
    "opt-post": ("opt", dict(ffn_dim=40, word_embed_proj_dim=48, do_layer_norm_before=False,
        activation_function="gelu")),
    "phi": ("phi", dict(num_key_value_heads=6)),
    "phi3": ("phi3", dict(num_key_value_heads=6)),
    "phi3-window": ("phi3", dict(sliding_window=6)),
    "phi3-short": ("phi3",
        dict(num_key_value_heads=6, rope_parameters=longrope(32), original_max_position_embeddings=32)),
    "phi3-long": ("phi3",
        dict(num_key_value_heads=6, rope_parameters=longrope(16), original_max_position_embeddings=16)),
    "phimoe": ("phimoe", dict(num_local_experts=5, attention_bias=True, lm_head_bias=True, router_jitter_noise=0.3)),
    "phimoe-short": ("phimoe", dict(num_local_experts=4, sliding_window=7, router_jitter_noise=0.1,
        rope_parameters=dict(longrope(32), short_mscale=1.2, long_mscale=1.2))),
    "starcoder2": ("starcoder2", dict(sliding_window=9)),
    "gpt_bigcode": ("gpt_bigcode", dict(n_embd=48, n_layer=3, n_head=6, n_positions=64, vocab_size=61)),
    "gpt_bigcode-heads": ("gpt_bigcode", dict(n_embd=48, n_layer=3, n_head=6, n_positions=64, vocab_size=61,
        multi_query=False)),
    "olmo2": ("olmo2", {}),
    "gemma": ("gemma", dict(head_dim=16)),
    "gemma3_text": ("gemma3_text", dict(head_dim=16, sliding_window=6, query_pre_attn_scalar=20,
        sliding_window_pattern=3)),
    "gemma2": ("gemma2", dict(head_dim=16, sliding_window=6, query_pre_attn_scalar=20, attn_logit_softcapping=5.0,
        final_logit_softcapping=3.0)),
    "bert": ("bert", {}),
    "bert-masked": ("bert", dict(hidden_act="gelu_new", type_vocab_size=3)),
    "megatron-bert": ("megatron-bert", {}),
    "megatron-bert-masked": ("megatron-bert", dict(hidden_act="relu")),
    "roberta": ("roberta", dict(pad_token_id=1, type_vocab_size=1, hidden_act="relu")),
    "xlm-roberta": ("xlm-roberta", dict(pad_token_id=1, max_position_embeddings=26)),
    "distilbert": ("distilbert", dict(dim=48, hidden_dim=40, n_layers=3, n_heads=6)),
    "modernbert": ("modernbert", dict(local_attention=8, num_hidden_layers=4)),
    "modernbert-biases": ("modernbert", dict(layer_types=["sliding_attention"] * 2 + ["full_attention"],
        local_attention=6, norm_bias=True,
                                             attention_bias=True, mlp_bias=True, classifier_bias=True,
                                                 decoder_bias=False,
                                             classifier_activation="relu")),
    "t5": ("t5", T5),
    "t5-1.1": ("t5", dict(T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
    "t5-silu": ("t5", dict(T5, feed_forward_proj="gated-silu", num_decoder_layers=3)),
    "mt5": ("mt5", dict(T5, d_ff=44)),
    "umt5": ("umt5", dict(T5, tie_word_embeddings=False)),
    "umt5-tied": ("umt5", dict(T5, feed_forward_proj="relu")),
    "megatron-t5": ("megatron-t5", dict(hidden_size=48, ffn_hidden_size=40, num_layers=3, num_decoder_layers=2,
        num_attention_heads=6,
                                        kv_channels=12, max_position_embeddings=64)),
}
ENCODERS = ("bert", "megatron-bert", "roberta", "xlm-roberta", "distilbert", "modernbert")

ENCODER_DECODERS = ("t5", "mt5", "umt5", "megatron-t5")


class Float64Torch:
    """torch, where float32 is float64: for modules of models, which compute some things in float32 whatever the type of the model."""

    float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


to_float, cos, sin, in_rotation = torch.Tensor.float, torch.Tensor.cos, torch.Tensor.sin, False
softmax = torch.nn.functional.softmax
torch.nn.functional.softmax = lambda x, *a, dtype=None, **k: softmax(x, *a, dtype=None if x.dtype == torch.float64 else
    dtype, **k)  # of routers
torch.Tensor.float = lambda t, *a, **k: t if t.dtype == torch.float64 and not in_rotation else to_float(t, *a, **k)
# The float32 cosine nearest to the exact one of the float32 angle: torch's own differs from it in the last bit.
torch.Tensor.cos = lambda t: cos(t.double()).to(t.dtype)
torch.Tensor.sin = lambda t: sin(t.double()).to(t.dtype)


def rotation_in_float32(forward):
    def wrapped(*args, **kwargs):
        global in_rotation
        in_rotation = True
        try:
            return forward(*args, **kwargs)
        finally:
            in_rotation = False

    return wrapped


def draw(parameters):
    """Draws weights; those of norms around their neutral value."""
    with torch.no_grad():
        for key, p in parameters:
            drawn = 0.2 * torch.randn_like(p)
            p.copy_(p + drawn if p.dim() == 1 and key.endswith("weight") else drawn)


class MegatronT5:
    """Megatron-LM's T5, written down independently: no model of transformers has this form."""

    def __init__(self, vocab_size, hidden_size, ffn_hidden_size, num_layers, num_decoder_layers, num_attention_heads,
        kv_channels,
                 max_position_embeddings):
        self.heads, self.p, width = num_attention_heads, {}, num_attention_heads * kv_channels

        def linear(name, rows, columns):
            self.p[name + ".weight"], self.p[name + ".bias"] = torch.zeros(rows, columns), torch.zeros(rows)

        def norm(name):
            self.p[name + ".weight"], self.p[name + ".bias"] = torch.ones(hidden_size), torch.zeros(hidden_size)

        self.p["language_model.embedding.word_embeddings.weight"] = torch.zeros(vocab_size, hidden_size)
        self.p["language_model.embedding.position_embeddings.weight"] = torch.zeros(max_position_embeddings,
            hidden_size)
        for stack, layers, attentions in (("encoder", num_layers, ["self_attention"]),
                                          ("decoder", num_decoder_layers, ["self_attention", "inter_attention"])):
            for i in range(layers):
                at = f"language_model.{stack}.layers.{i}."
                for attention in attentions:
                    for part in ("query", "key", "value"):
                        linear(f"{at}{attention}.{part}", width, hidden_size)
                    linear(f"{at}{attention}.dense", hidden_size, width)
                linear(at + "mlp.dense_h_to_4h", ffn_hidden_size, hidden_size)
                linear(at + "mlp.dense_4h_to_h", hidden_size, ffn_hidden_size)
                norm(at + "input_layernorm")
                norm(at + "post_attention_layernorm")
                if stack == "decoder":
                    norm(at + "post_inter_attention_layernorm")
            norm(f"language_model.{stack}.final_layernorm")
        self.p["lm_head.bias"] = torch.zeros(vocab_size)
        draw(self.p.items())
        self.layers = {"encoder": num_layers, "decoder": num_decoder_layers}

    def named_parameters(self):
        return self.p.items()

    def double(self):
        self.p = {name: p.double().requires_grad_() for name, p in self.p.items()}

    def linear(self, name, x):
        return x @ self.p[name + ".weight"].T + self.p[name + ".bias"]

    def norm(self, name, x):
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * self.p[name + ".weight"] + self.p[name
            + ".bias"]

    def attention(self, name, x, source, hidden):
        """hidden: [batch or 1, rows of x or 1, rows of the source], what a row does not see."""
        q, k, v = (self.linear(f"{name}.{part}", y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part, y in (("query", x), ("key", source), ("value", source)))
        scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(hidden[:, None], float("-inf"))
        return self.linear(name + ".dense", (scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def stack(self, stack, ids, hidden, source=None, source_hidden=None):
        p = self.p
        x = p["language_model.embedding.word_embeddings.weight"][ids] + p[
            "language_model.embedding.position_embeddings.weight"][:ids.shape[1]]
        for i in range(self.layers[stack]):
            at, after = f"language_model.{stack}.layers.{i}.", "post_attention_layernorm"
            y = self.norm(at + "input_layernorm", x)
            x = x + self.attention(at + "self_attention", y, y, hidden)
            if source is not None:
                x = x + self.attention(at + "inter_attention", self.norm(at + after, x), source, source_hidden)
                after = "post_inter_attention_layernorm"
            y = torch.nn.functional.gelu(self.linear(at + "mlp.dense_h_to_4h", self.norm(at + after, x)),
                approximate="tanh")
            x = x + self.linear(at + "mlp.dense_4h_to_h", y)
        return self.norm(f"language_model.{stack}.final_layernorm", x)

    def __call__(self, tokens, targets, seen):
        length = targets.shape[1]
        future = torch.arange(length)[None, :] > torch.arange(length)[:, None]
        source = self.stack("encoder", tokens, ~seen[:, None, :])
        x = self.stack("decoder", targets, future[None], source, ~seen[:, None, :])
        return x @ self.p["language_model.embedding.word_embeddings.weight"].T + self.p["lm_head.bias"]


def t5_of_transformers(model_type, keys):
    config = AutoConfig.for_model(model_type, **{"vocab_size": 61, "pad_token_id": None, "eos_token_id": 2, **keys})
    model = AutoModelForSeq2SeqLM.from_config(config, attn_implementation="eager", experts_implementation="eager").eval()
    if model_type == "mt5" or keys.get("tie_word_embeddings") is False:  # version 5 ties them, folders do not
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
        if model_type == "umt5":  # version 5 scales what the head reads in any case, version 4 only if it is tied
            model.config.tie_word_embeddings = False
    for module in {type(m).__module__ for m in model.modules()}:
        if module.startswith("transformers.models."):
            importlib.import_module(module).torch = Float64Torch()
    draw(model.named_parameters())
    with torch.no_grad():
        for key, p in model.named_parameters():
            # scores are not scaled: with such queries no position has nearly all of the attention
            if key.endswith(".q.weight"):
                p.mul_(0.3)
    return config, model


def make_t5(folder, name):
    model_type, keys = CASES[name]
    torch.manual_seed(11)
    where = os.path.join(folder, name)
    shutil.rmtree(where, ignore_errors=True)
    os.makedirs(os.path.join(where, "grads"))
    own = model_type == "megatron-t5"
    if own:
        model = MegatronT5(vocab_size=61, **keys)
        text = dict(keys, model_type=model_type, architectures=["MegatronT5ForConditionalGeneration"], vocab_size=61,
            eos_token_id=2)
    else:
        config, model = t5_of_transformers(model_type, keys)
        config.architectures = [type(model).__name__]
        config.save_pretrained(where)
        # as published folders say it: version 5 says that all heads are tied
        with open(os.path.join(where, "config.json")) as saved:
            text = {key: value for key, value in json.load(saved).items() if key != "scale_decoder_outputs"}
        text["tie_word_embeddings"] = model.lm_head.weight is model.shared.weight
    safetensors.torch.save_file({key: p.detach().clone().contiguous() for key, p in model.named_parameters()},
                                os.path.join(where, "model.safetensors"), metadata={"format": "pt"})
    for at in (where, os.path.join(where, "grads")):
        with open(os.path.join(at, "config.json"), "w") as out:
            json.dump(text, out, indent=2)
    model.double()
    batch, length = 2, 24
    tokens, targets, labels = (torch.randint(0, 61, (batch, length)) for _ in range(3))
    lengths, weights = torch.tensor([length, 17]), (torch.rand(batch, length) < 0.7).float()
    seen = torch.arange(length)[None] < lengths[:, None]
    if own:
        logits = model(tokens, targets, seen)
    else:
        logits = model(input_ids=tokens, attention_mask=seen.long(), decoder_input_ids=targets, use_cache=False).logits
    assert logits.dtype == torch.float64, logits.dtype
    losses = torch.nn.functional.cross_entropy(logits.reshape(-1, 61), labels.reshape(-1), reduction="none")
    ((losses * weights.reshape(-1)).sum() / weights.sum()).backward()
    safetensors.torch.save_file({key: p.grad.contiguous() for key, p in model.named_parameters()},
                                os.path.join(where, "grads", "model.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(where, "expected.txt"), "w") as out:
        out.write(f"{batch} {length} 0\n")
        for i, loss in enumerate(losses):
            at = divmod(i, length)
            out.write(f"{tokens[at]} {labels[at]} {loss:.17g} {weights[at]:g} {targets[at]} {lengths[at[0]]}\n")


def split_experts(tensors, is_mixtral):
    """The tensors by their names in files."""
    names = ("w1", "w3", "w2") if is_mixtral else ("gate_proj", "up_proj", "down_proj")
    out = {}
    for key, t in tensors.items():
        stem, last = key.rsplit(".", 1)
        if is_mixtral:
            stem, key = (x.replace(".mlp.", ".block_sparse_moe.").replace(".router.", ".gate.") for x in (stem, key))
        if last not in ("gate_up_proj", "down_proj") or t.dim() != 3:
            out[key] = t
            continue
        for e, part in enumerate(t):
            if last == "down_proj":
                out[f"{stem}.{e}.{names[2]}.weight"] = part.contiguous()
                continue
            out[f"{stem}.{e}.{names[0]}.weight"], out[f"{stem}.{e}.{names[1]}.weight"] = (
                half.contiguous() for half in part.chunk(2))
    return out


def rename_granite(key):
    """The name in files."""
    for name, file in ((".experts.gate_up_proj", ".input_linear.weight"), (".experts.down_proj", ".output_linear.weight"),
                       (".router.weight", ".router.layer.weight")):
        key = key.replace(name, file)
    return key


def make(folder, name):
    model_type, keys = CASES[name]
    if model_type in ENCODER_DECODERS:
        make_t5(folder, name)
        return
    torch.manual_seed(11)
    drops = {"gpt2": SIZES, "gpt_bigcode": SIZES, "gpt_neox": ("num_key_value_heads",),
        "opt": ("num_key_value_heads", "intermediate_size"),
             **{key: ("num_key_value_heads",) for key in ENCODERS},
             "distilbert": ("num_key_value_heads", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                 "hidden_size"),
             "bloom": ("num_key_value_heads", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                 "max_position_embeddings")}
    own = {key: value for key, value in SIZES.items() if key not in drops.get(model_type, ())}
    # Without a pad token: transformers leaves the gradient of its row of the table out.
    config = AutoConfig.for_model(model_type, **{**own, "pad_token_id": None, "bos_token_id": 1, "eos_token_id": 2,
        **keys})
    config._attn_implementation = "eager"
    encoder, pairs = model_type in ENCODERS, name in ("bert", "megatron-bert")
    kind = AutoModelForPreTraining if pairs else AutoModelForMaskedLM if encoder else AutoModelForCausalLM
    model = kind.from_config(config, attn_implementation="eager", experts_implementation="eager").eval()
    for module in {type(m).__module__ for m in model.modules()}:
        if module.startswith("transformers.models."):
            importlib.import_module(module).torch = Float64Torch()
    for m in model.modules():
        if type(m).__name__.endswith("RotaryEmbedding"):
            m.forward = rotation_in_float32(m.forward)
    draw(model.named_parameters())
    for m in model.modules():  # what is added to the scores of a choice, in float32 as in folders
        if hasattr(m, "e_score_correction_bias"):
            m.e_score_correction_bias = 0.1 * torch.randn(m.e_score_correction_bias.shape)
    where = os.path.join(folder, name)
    shutil.rmtree(where, ignore_errors=True)
    model.save_pretrained(where)
    model.double()
    batch, length = 2, 24
    tokens = torch.randint(0, config.vocab_size, (batch, length))
    labels = torch.randint(0, config.vocab_size, (batch, length))
    weights, types, lengths = torch.ones(batch, length), torch.zeros(batch, length,
        dtype=torch.long), torch.tensor([length] * batch)
    inputs, is_random = dict(input_ids=tokens, use_cache=False), torch.tensor([1, 0])
    if encoder:
        lengths = torch.tensor([length, 17])
        seen = torch.arange(length)[None] < lengths[:, None]
        if config.pad_token_id is not None:  # an id that counts for positions, and stands for padding alone
            tokens = tokens.clamp(min=2) * seen + config.pad_token_id * ~seen
        weights = ((torch.rand(batch, length) < 0.3) & seen).float()
        types = torch.randint(0, getattr(config, "type_vocab_size", 1), (batch, length)) * seen
        inputs = dict(input_ids=tokens, attention_mask=seen.long(),
            **(dict(token_type_ids=types) if hasattr(config, "type_vocab_size") else {}))
    out = model(**inputs)
    logits = out.prediction_logits if pairs else out.logits
    assert logits.dtype == torch.float64, logits.dtype
    losses = torch.nn.functional.cross_entropy(logits.reshape(-1, config.vocab_size), labels.reshape(-1),
        reduction="none")
    loss = (losses * weights.reshape(-1)).sum() / weights.sum()
    if pairs:
        loss = loss + torch.nn.functional.cross_entropy(out.seq_relationship_logits, is_random)
    if encoder:  # and the loss is that of the model itself
        own = dict(labels=labels.masked_fill(weights == 0, -100),
            **(dict(next_sentence_label=is_random) if pairs else {}))
        assert (model(**inputs, **own).loss - loss).abs() < 1e-12
    loss.backward()
    os.makedirs(os.path.join(where, "grads"))
    saved = safetensors.torch.load_file(os.path.join(where, "model.safetensors"))
    grads = {key: p.grad.contiguous() for key, p in model.named_parameters(remove_duplicate=not encoder) if not encoder
        or key in saved}
    if model_type == "gpt_neox":  # whose files keep the old name
        grads["embed_out.weight"] = grads.pop("lm_head.weight")
    if model_type.startswith("granitemoe"):
        grads = {rename_granite(key): p for key, p in grads.items()}
    elif (getattr(config, "num_experts", None) or getattr(config, "num_local_experts", None)) and model_type != "gpt_oss":
        grads = split_experts(grads, model_type in ("mixtral", "phimoe"))  # one tensor of all experts in memory, one an expert in files
    for key in saved:
        if key.endswith("e_score_correction_bias"):  # it has no gradient
            grads[key] = torch.zeros_like(saved[key])
    assert set(grads) == set(saved), set(grads) ^ set(saved)
    safetensors.torch.save_file(grads, os.path.join(where, "grads", "model.safetensors"), metadata={"format": "pt"})
    shutil.copy(os.path.join(where, "config.json"), os.path.join(where, "grads"))
    with open(os.path.join(where, "expected.txt"), "w") as text:
        text.write(f"{batch} {length} {int(pairs)}\n")
        for i, loss in enumerate(losses):
            at = divmod(i, length)
            text.write(f"{tokens[at]} {labels[at]} {loss:.17g} {weights[at]:g} {types[at]} {lengths[at[0]]}\n")
        for i in range(batch if pairs else 0):
            text.write(f"{is_random[i]} " + " ".join(f"{x:.17g}" for x in out.seq_relationship_logits[i].tolist())
                + "\n")


def main():
    folder, names = sys.argv[1], sys.argv[2:] or list(CASES)
    os.makedirs(folder, exist_ok=True)
    for name in names:
        make(folder, name)
        print(name, flush=True)


main()
