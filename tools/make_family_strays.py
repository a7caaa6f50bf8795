#!/usr/bin/env python3
"""Folders that say more or less than their model: golden_test_families compares what is made of them with what transformers makes of them.

    make_family_strays.py MODELS FOLDER [NAME...]

MODELS has models of make_family_golden.py. A case FOLDER/NAME~WHAT is one of them with one change: a key of config.json that its family does
not have, or has twice, or tensors that are copies, are missing, or that no parameter of the model needs. It has config.json and
model.safetensors; names.txt, one of whose words a refusal has to contain; and expected.txt as make_family_golden.py writes it, with the
losses that transformers computes in float32, unless transformers ends with an error or draws a tensor at random.
Without a NAME it makes the cases in which something was once read otherwise; with names, all cases of these models, 15 seconds each (give
the test MEGA_FAMILY_FOLDER=MODELS MEGA_FAMILY_STRAYS=FOLDER then). A umt5 with a head of its own differs on purpose (docs/t5.md)."""
import copy
import json
import os
import shutil
import sys

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")
import safetensors.torch
import torch
import transformers

transformers.logging.disable_progress_bar()
HEADS = {"lm_head.weight", "embed_out.weight", "cls.predictions.decoder.weight", "lm_head.decoder.weight",
    "vocab_projector.weight", "decoder.weight"}
LINEAR = {"rope_type": "linear", "factor": 2.0}
YARN = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 16}
# Keys of one family or another, each put into all. A key that another key of the list stands for is not repeated.
KEYS = {
    "partial_rotary_factor": [0.5, 1.0], "rotary_pct": [0.5], "rotary_emb_base": [500], "rope_theta": [500.0],
        "rotary_dim": [4],
    "rope_scaling": [None, LINEAR, {"type": "linear", "factor": 2.0}, dict(YARN), {"rope_type": "default"},
        {"rope_type": "default", "partial_rotary_factor": 0.5},
                     {**LINEAR, "partial_rotary_factor": 0.5}, {**LINEAR, "rope_theta": 500.0},
                         {"rope_type": "default", "rope_theta": 500.0}],
    "rope_parameters": [{"rope_type": "default", "rope_theta": 500.0},
        {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5},
                        {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 1.0},
                            {"rope_type": "default"},
                        {**LINEAR, "rope_theta": 500.0}, {**YARN, "rope_theta": 500.0, "partial_rotary_factor": 0.5},
                        {"full_attention": {"rope_type": "default", "rope_theta": 500.0},
                            "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}}],
    "original_max_position_embeddings": [16], "rope_local_base_freq": [50.0], "global_rope_theta": [500.0],
        "local_rope_theta": [50.0],
    "rope_interleaved": [True], "head_dim": [16, 8], "attention_head_size": [16], "attention_bias": [True, False],
        "mlp_bias": [True, False],
    "use_bias": [True, False], "bias": [True, False], "qkv_bias": [True, False], "use_qkv_bias": [True],
        "sliding_window": [5, None],
    "use_sliding_window": [True, False], "max_window_layers": [1], "sliding_window_pattern": [2], "layer_types": [None],
        "no_rope_layers": [[1, 0, 1]],
    "no_rope_layer_interval": [2], "logit_scale": [0.5], "logits_scaling": [2.0], "attention_multiplier": [0.5],
        "residual_multiplier": [0.5],
    "embedding_multiplier": [2.0], "final_logit_softcapping": [3.0], "attn_logit_softcapping": [5.0],
        "query_pre_attn_scalar": [20],
    "scale_embedding": [True], "use_qk_norm": [True], "qk_layernorm": [True], "tie_word_embeddings": [True, False],
    "scale_decoder_outputs": [True, False], "layer_norm_eps": [0.1], "layer_norm_epsilon": [0.1], "rms_norm_eps": [0.1],
        "norm_eps": [0.1],
    "norm_epsilon": [0.1], "hidden_act": ["relu"], "activation_function": ["relu"], "hidden_activation": ["relu"],
        "activation": ["relu"],
    "feed_forward_proj": ["gated-silu"], "dense_act_fn": ["silu"], "is_gated_act": [True], "clip_qkv": [1.0],
        "parallel_attn": [True],
    "use_parallel_residual": [False], "alibi": [True], "multi_query": [False], "num_kv_heads": [1],
        "position_embedding_type": ["relative_key"],
    "scale_attn_weights": [False], "scale_attn_by_inverse_layer_idx": [True], "reorder_and_upcast_attn": [True],
        "is_decoder": [True, False],
    "is_encoder_decoder": [True], "add_cross_attention": [True], "tie_encoder_decoder": [True],
        "do_layer_norm_before": [False],
    "_remove_final_layer_norm": [True], "layer_norm_elementwise_affine": [False], "enable_bias": [False],
        "apply_residual_connection_post_layernorm": [True],
    "word_embed_proj_dim": [24], "n_inner": [40], "attention_softmax_in_fp32": [False],
        "use_bidirectional_attention": [True], "cls_token_id": [5],
    "num_experts": [2], "mtp_num_layers": [1], "num_nextn_predict_layers": [1], "use_mrope": [True],
        "first_k_dense_replace": [1], "pad_token_id": [7],
    "slow_but_exact": [True], "pretraining_tp": [2], "torchscript": [True], "use_bfloat16": [True],
        "pruned_heads": [{"0": [1]}], "quantization": [{"bits": 4}],
    "global_attn_every_n_layers": [2], "local_attention": [4], "norm_bias": [True], "decoder_bias": [False],
        "deterministic_flash_attn": [True],
    "embedding_size": [24], "full_attn_mod": [2], "interpolate_factor": [2], "lm_head_bias": [True],
        "sinusoidal_pos_embds": [True], "type_vocab_size": [1],
    "relative_attention_num_buckets": [6], "d_kv": [24], "encoder_layers": [2], "summary_type": ["cls_index"],
        "num_labels": [3], "seq_length": [16],
}
# What a refusal may name in place of the key.
ALSO = {"tie_word_embeddings": HEADS, "scale_decoder_outputs": HEADS,
    "feed_forward_proj": ("dense_act_fn", "is_gated_act"),
        "sliding_window": ("layer_types",), "use_sliding_window": ("layer_types",)}
# Without names: the models, and which changes of each (the beginnings of their names).
ROTATION = ("partial", "rope_theta", "rope_scaling-1", "rope_scaling-2", "rope_scaling-5", "rope_scaling-6",
    "rope_parameters-0", "rope_parameters-1", "rope_parameters-5",
            "in-rope_parameters-partial", "sliding_window-1", "use_sliding", "layer_types", "attn_logit")
HEAD = ("tieTrue", "tieFalse-lm_head.weight-alone", "bias-", "gamma", "extra-layer", "buffer-attn.bias",
    "buffer-attention.rotary", "table-bare")
SOME = {**{name: ROTATION for name in ("llama", "mistral", "qwen2-window", "phi", "phi3", "gpt_neox", "gemma3_text",
    "modernbert", "smollm3")},
        **{name: HEAD for name in ("gpt2", "llama-tied", "bert-masked", "roberta", "distilbert")},
        **{name: ("tables", "tieFalse-lm_head.weight-alone", "feed_forward", "dense_act", "is_gated", "scale_dec",
            "tie_word") for name in ("t5", "t5-1.1", "mt5")}}


def key_changes(config):
    for key, values in KEYS.items():
        for i, value in enumerate(values):
            if key == "layer_types":
                n = next(config[k] for k in ("num_hidden_layers", "n_layer", "n_layers", "num_layers") if k in config)
                value = ["sliding_attention"] * (n - 1) + ["full_attention"]
            changed = copy.deepcopy(config)
            if key in ("rope_scaling", "rope_theta"):  # as version 4 writes it
                old = changed.pop("rope_parameters", None)
                if old and "rope_theta" in old and key == "rope_scaling":
                    changed["rope_theta"] = old["rope_theta"]
            if key == "partial_rotary_factor":
                (changed.get("rope_parameters") or {}).pop(key, None)
            # whose window is local_attention; null is an error there
            if key == "sliding_window" and config["model_type"] == "modernbert":
                continue
            if changed.get(key, "none") != value:
                changed[key] = value
                yield f"{key}-{i}", changed, [key, *ALSO.get(key, ())]
    inside = config.get("rope_parameters")
    for key, value in {"partial_rotary_factor": 0.5, "factor": 2.0, "beta_fast": 3.0, "rotary_pct": 0.5,
        "original_max_position_embeddings": 16, "mrope_section": [1, 2, 3],
                       "truncate": False, "long_factor": [1.0, 2.0, 3.0, 4.0], "attention_factor": 2.0,
                           "type": "linear"}.items() if inside else ():
        if "rope_type" in inside and inside.get(key) != value:
            changed = copy.deepcopy(config)
            changed["rope_parameters"][key] = value
            yield f"in-rope_parameters-{key}", changed, [key]


def heads_and_tables(config, tensors):
    tables = [k for k in tensors if k.split(".")[-2] in ("wte", "embed_tokens", "embed_in", "word_embeddings",
        "tok_embeddings", "shared")]
    head = {"gpt_neox": ["embed_out.weight", "lm_head.weight"], "bert": ["cls.predictions.decoder.weight"],
        "megatron-bert": ["cls.predictions.decoder.weight"],
            "roberta": ["lm_head.decoder.weight"], "xlm-roberta": ["lm_head.decoder.weight"],
                "distilbert": ["vocab_projector.weight"],
            "modernbert": ["decoder.weight"]}.get(config["model_type"], ["lm_head.weight"])
    return tables[0], head


def tensor_changes(config, tensors):
    table, heads = heads_and_tables(config, tensors)
    own = next((h for h in heads if h in tensors), None)
    for tie in (True, False) if "tie_word_embeddings" in config else (None,):
        said = dict(config) if tie is None else dict(config, tie_word_embeddings=tie)
        names = heads + [table, "tie_word_embeddings"]
        for head in [own] if own else heads:
            rest = {k: v for k, v in tensors.items() if k != head}
            yield f"tie{tie}-{head}-none", said, names, rest
            yield f"tie{tie}-{head}-equal", said, names, {**rest, head: tensors[table].clone()}
            yield f"tie{tie}-{head}-half", said, names, {**rest, head: tensors[table].to(torch.bfloat16)}
            yield f"tie{tie}-{head}-other", said, names, {**rest, head: tensors[table].flip(0).contiguous()}
            yield f"tie{tie}-{head}-rows", said, names, {**rest, head: tensors[table][:-3].clone()}
            yield f"tie{tie}-{head}-more", said, names, {**rest, head: torch.cat([tensors[table], tensors[table][:3]])}
            yield f"tie{tie}-{head}-alone", said, names, {**{k: v for k, v in rest.items() if k != table},
                head: tensors[table].flip(0).contiguous()}
    bias = next((k for k in tensors if k in ("cls.predictions.bias", "lm_head.bias")
        and heads[0].endswith("decoder.weight")), None)
    if bias:
        copy_of = heads[0].replace("weight", "bias")
        yield "bias-equal", config, [copy_of, bias], {**tensors, copy_of: tensors[bias].clone()}
        yield "bias-other", config, [copy_of, bias], {**tensors, copy_of: tensors[bias] + 1}
        yield "bias-alone", config, [copy_of, bias], {**{k: v for k, v in tensors.items() if k != bias},
            copy_of: tensors[bias] + 1}
    # a tensor that is missing, that is twice there, an extra layer, buffers
    last = sorted(k for k in tensors if k.endswith("weight") and any(part.isdigit() for part in k.split(".")))[-1]
    yield "missing", config, [last], {k: v for k, v in tensors.items() if k != last}
    parts = last.split(".")
    at = next(i for i, part in enumerate(parts) if part.isdigit())
    head, number = ".".join(parts[:at]), int(parts[at])
    of_layer = {k: v for k, v in tensors.items() if k.startswith(f"{head}.{number}.")}
    more = {k.replace(f"{head}.{number}.", f"{head}.{number + 1}.", 1): v.clone() for k, v in of_layer.items()}
    yield "extra-layer", config, [f"{head}.{number + 1}."], {**tensors, **more}
    yield "extra-tensor", config, ["score.weight"], {**tensors, "score.weight": torch.ones(2, 48)}
    yield "extra-bias", config, [f"{head}.0.stray.bias"], {**tensors, f"{head}.0.stray.bias": torch.ones(48)}
    inner = {"gpt2": "attn", "gpt_bigcode": "attn", "gpt_neox": "attention",
        "bloom": "self_attention"}.get(config["model_type"], "self_attn")
    for buffer, value in {f"{inner}.bias": torch.ones(1, 1, 64, 64).tril(), f"{inner}.masked_bias": torch.tensor(-1e9),
                          f"{inner}.rotary_emb.inv_freq": torch.full((4,), 0.3),
                              "attention.rotary_emb.inv_freq": torch.full((1,), 0.3)}.items():
        name = f"{head}.0.{buffer}"
        yield f"buffer-{buffer}", config, [name], {**tensors, name: value}
    root = head.split(".")[0]
    for buffer, value in {"rotary_emb.inv_freq": torch.full((4,), 0.3),
        "embeddings.position_ids": torch.arange(64)[None],
                          "embeddings.token_type_ids": torch.zeros(1, 64, dtype=torch.long)}.items():
        yield f"buffer-{root}.{buffer}", config, [f"{root}.{buffer}"], {**tensors, f"{root}.{buffer}": value}
    yield "prefix-none", config, [root], {k[len(root) + 1:] if k.startswith(root + ".") else k: v for k,
        v in tensors.items()}
    yield "prefix-twice", config, [root], {**tensors, f"{root}.{table}": tensors[table].flip(0).contiguous()}
    bare = table[len(root) + 1:] if table.startswith(root + ".") else None
    if bare:
        yield "table-bare-too", config, [bare, table], {**tensors, bare: tensors[table].flip(0).contiguous()}
    renamed = {k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v for k,
        v in tensors.items()}
    if set(renamed) != set(tensors):
        yield "gamma-beta", config, ["LayerNorm"], renamed
        norm = next(k for k in tensors if k.endswith("LayerNorm.weight"))
        yield "gamma-too", config, ["LayerNorm.gamma"], {**tensors, norm.replace("weight", "gamma"): tensors[norm] + 1}
    if config["model_type"] in ("t5", "mt5", "umt5"):
        rest, shared = {k: v for k, v in tensors.items() if k != "shared.weight"}, tensors["shared.weight"]
        enc, dec, other = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", shared.flip(0).contiguous()
        names = [enc, dec, "shared.weight"]
        for what, table_set in {"three": {"shared.weight": shared, enc: shared.clone(), dec: shared.clone()},
            "enc-dec": {enc: shared, dec: shared.clone()},
                                "enc": {enc: shared}, "dec": {dec: shared}, "enc-dec-differ": {enc: shared, dec: other},
                                    "none": {},
                                "shared-enc-differ": {"shared.weight": shared, enc: other},
                                    "shared-dec-differ": {"shared.weight": shared, dec: other}}.items():
            yield f"tables-{what}", config, names, {**rest, **table_set}
    if config["model_type"] == "bert" and not any(k.startswith("cls.seq") for k in tensors):
        more = {"bert.pooler.dense.weight": torch.ones(48, 48), "bert.pooler.dense.bias": torch.ones(48),
            "cls.seq_relationship.weight": torch.ones(2, 48),
                "cls.seq_relationship.bias": torch.ones(2)}
        yield "other-heads", config, ["pooler", "seq_relationship"], {**tensors, **more}


class Losses:
    def __init__(self, base):
        lines = [line.split() for line in open(os.path.join(base, "expected.txt"))]
        self.batch, self.length, self.pairs = map(int, lines[0])
        n = self.batch * self.length
        column = lambda i, kind: torch.tensor([kind(line[i]) for line in lines[1:n + 1]]).reshape(self.batch,
            self.length)
        self.tokens, self.labels, self.types, self.ends = (column(i, int) for i in (0, 1, 4, 5))
        self.weights = [line[3] for line in lines[1:n + 1]]
        self.random = [line[0] for line in lines[n + 1:]]

    def write(self, folder, out):
        name = json.load(open(os.path.join(folder, "config.json")))["architectures"][0]
        model, info = getattr(transformers, name).from_pretrained(folder, output_loading_info=True, dtype=torch.float32,
            attn_implementation="eager")
        drawn = {k for k in info["missing_keys"] if "position_ids" not in k}
        if drawn:
            raise ValueError(f"drawn at random: {sorted(drawn)}")
        seen = torch.arange(self.length)[None] < self.ends
        inputs = dict(input_ids=self.tokens)
        if "ConditionalGeneration" in name:
            inputs.update(decoder_input_ids=self.types, attention_mask=seen.long(), use_cache=False)
        elif "MaskedLM" in name or "PreTraining" in name:
            inputs.update(attention_mask=seen.long(),
                **({"token_type_ids": self.types} if hasattr(model.config, "type_vocab_size") else {}))
        else:
            inputs.update(use_cache=False)
        with torch.no_grad():
            result = model.eval()(**inputs)
        logits = result.prediction_logits if self.pairs else result.logits
        losses = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]).double(),
            self.labels.reshape(-1), reduction="none")
        with open(out, "w") as text:
            text.write(f"{self.batch} {self.length} {self.pairs}\n")
            for i, loss in enumerate(losses):
                at = divmod(i, self.length)
                text.write(
                    f"{self.tokens[at]} {self.labels[at]} {loss:.17g} {self.weights[i]} {self.types[at]} {self.ends[at]}\n")
            for i in range(self.batch if self.pairs else 0):
                text.write(f"{self.random[i]} "
                    + " ".join(f"{x:.17g}" for x in result.seq_relationship_logits[i].tolist()) + "\n")


def make(base, where, config, names, tensors, losses):
    os.makedirs(where)
    with open(os.path.join(where, "config.json"), "w") as out:
        json.dump(config, out, indent=2)
    if tensors is None:
        os.symlink(os.path.abspath(os.path.join(base, "model.safetensors")), os.path.join(where, "model.safetensors"))
    else:
        safetensors.torch.save_file(tensors, os.path.join(where, "model.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(where, "names.txt"), "w") as out:
        out.write("\n".join(names) + "\n")
    try:
        losses.write(where, os.path.join(where, "expected.txt"))
    except Exception as e:  # noqa: BLE001  transformers has no answer
        with open(os.path.join(where, "error.txt"), "w") as out:
            out.write(f"{type(e).__name__}: {e}\n")


def main():
    models, folder, names = sys.argv[1], sys.argv[2], sys.argv[3:] or list(SOME)
    begins = ("",) if sys.argv[3:] else None
    shutil.rmtree(folder, ignore_errors=True)
    for name in names:
        base = os.path.join(models, name)
        config = json.load(open(os.path.join(base, "config.json")))
        wanted = begins or SOME[name]
        losses, tensors = Losses(base), safetensors.torch.load_file(os.path.join(base, "model.safetensors"))
        for what, changed, words in key_changes(config):
            if what.startswith(wanted):
                make(base, f"{folder}/{name}~{what}", changed, words, None, losses)
        for what, changed, words, changed_tensors in tensor_changes(config, tensors):
            if what.startswith(wanted):
                make(base, f"{folder}/{name}~{what}", changed, words, changed_tensors, losses)


main()
