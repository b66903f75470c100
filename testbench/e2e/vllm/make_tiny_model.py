#!/usr/bin/env python3
"""Make a tiny random-weight Qwen3 model (and LoRA adapters, and a hybrid model) that a real engine can serve.

    python make_tiny_model.py DIR [--layers 2] [--hidden 128] [--seed 1] [--max-len 8192]

What it makes
    DIR/tiny/       config.json, generation_config.json, model.safetensors, tokenizer files, chat template
    DIR/lora-a/     a rank-8 LoRA adapter for that model (random, both halves non-zero)
    DIR/lora-b/     a second one with other weights
    DIR/tiny-sliding/   a Gemma-3 shaped model: three sliding-window layers (64 tokens) and one full one, for KV events of
                    several cache groups

Only numpy is needed. Weights come from numpy's PCG64 with a fixed seed, so every machine makes the same bytes;
the script prints their SHA-256. The tokenizer (byte-level BPE, 4096 ids, ChatML specials) is that of the folder
`tiny-tokenizer` beside this script.

The model says nothing sensible. It is good for: greedy output that is the same on every run, token ids that cover
odd bytes (incomplete UTF-8), real KV blocks and events, real HTTP bodies.
"""
import argparse
import hashlib
import json
import os
import shutil
import struct

import numpy as np

VOCAB = 4096

def write_json(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1, sort_keys=True)
        f.write("\n")


def write_safetensors(path, tensors):
    """Write name -> float32 array in the safetensors layout: u64 header length, JSON header, data. Returns SHA-256."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    raw = json.dumps(header, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    digest = hashlib.sha256()
    with open(path, "wb") as f:
        for part in [struct.pack("<Q", len(raw)), raw] + [np.ascontiguousarray(a).tobytes() for a in tensors.values()]:
            f.write(part)
            digest.update(part)
    return digest.hexdigest()


class Weights:
    def __init__(self, seed):
        self.rng = np.random.Generator(np.random.PCG64(seed))

    def normal(self, scale, *shape):
        return (self.rng.standard_normal(shape, dtype=np.float64) * scale).astype(np.float32)


def make_model(folder, args):
    h, layers, heads, kv_heads, head_dim, inter = args.hidden, args.layers, 4, 2, 32, args.hidden * 2
    w = Weights(args.seed)
    t = {"model.embed_tokens.weight": w.normal(1.0, VOCAB, h)}
    for i in range(layers):
        p = f"model.layers.{i}."
        t[p + "input_layernorm.weight"] = np.ones(h, np.float32)
        t[p + "self_attn.q_proj.weight"] = w.normal(h ** -0.5, heads * head_dim, h)
        t[p + "self_attn.k_proj.weight"] = w.normal(h ** -0.5, kv_heads * head_dim, h)
        t[p + "self_attn.v_proj.weight"] = w.normal(h ** -0.5, kv_heads * head_dim, h)
        t[p + "self_attn.q_norm.weight"] = np.ones(head_dim, np.float32)
        t[p + "self_attn.k_norm.weight"] = np.ones(head_dim, np.float32)
        t[p + "self_attn.o_proj.weight"] = w.normal((heads * head_dim) ** -0.5, h, heads * head_dim)
        t[p + "post_attention_layernorm.weight"] = np.ones(h, np.float32)
        t[p + "mlp.gate_proj.weight"] = w.normal(h ** -0.5, inter, h)
        t[p + "mlp.up_proj.weight"] = w.normal(h ** -0.5, inter, h)
        t[p + "mlp.down_proj.weight"] = w.normal(inter ** -0.5, h, inter)
    t["model.norm.weight"] = np.ones(h, np.float32)
    # Not tied and wide: one logit stands well clear of the rest, so greedy output does not hang on rounding.
    t["lm_head.weight"] = w.normal(0.5, VOCAB, h)
    os.makedirs(folder, exist_ok=True)
    ids = special_ids(folder)
    write_json(os.path.join(folder, "config.json"), {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "float32",
        "vocab_size": VOCAB, "hidden_size": h, "intermediate_size": inter, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim,
        "max_position_embeddings": args.max_len, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
        "attention_bias": False, "attention_dropout": 0.0, "tie_word_embeddings": False, "use_cache": True,
        "initializer_range": 0.02, "bos_token_id": None, "eos_token_id": ids["<|im_end|>"],
        "pad_token_id": ids["<|endoftext|>"],
    })
    write_json(os.path.join(folder, "generation_config.json"), {
        "eos_token_id": [ids["<|im_end|>"], ids["<|endoftext|>"]], "pad_token_id": ids["<|endoftext|>"],
    })
    return write_safetensors(os.path.join(folder, "model.safetensors"), t)


def make_sliding(folder, args):
    h, heads, kv_heads, head_dim, inter = 128, 4, 2, 32, 256
    w = Weights(args.seed + 1)
    t = {"model.embed_tokens.weight": w.normal(h ** -0.5, VOCAB, h)}
    kinds = ["sliding_attention"] * 3 + ["full_attention"]
    for i in range(len(kinds)):
        p = f"model.layers.{i}."
        for name in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"):
            t[p + name + ".weight"] = np.zeros(h, np.float32)      # this norm multiplies by 1 + weight
        t[p + "self_attn.q_proj.weight"] = w.normal(h ** -0.5, heads * head_dim, h)
        t[p + "self_attn.k_proj.weight"] = w.normal(h ** -0.5, kv_heads * head_dim, h)
        t[p + "self_attn.v_proj.weight"] = w.normal(h ** -0.5, kv_heads * head_dim, h)
        t[p + "self_attn.q_norm.weight"] = np.zeros(head_dim, np.float32)
        t[p + "self_attn.k_norm.weight"] = np.zeros(head_dim, np.float32)
        t[p + "self_attn.o_proj.weight"] = w.normal((heads * head_dim) ** -0.5, h, heads * head_dim)
        t[p + "mlp.gate_proj.weight"] = w.normal(h ** -0.5, inter, h)
        t[p + "mlp.up_proj.weight"] = w.normal(h ** -0.5, inter, h)
        t[p + "mlp.down_proj.weight"] = w.normal(inter ** -0.5, h, inter)
    t["model.norm.weight"] = np.zeros(h, np.float32)
    ids = special_ids(folder)
    write_json(os.path.join(folder, "config.json"), {
        "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "torch_dtype": "float32",
        "vocab_size": VOCAB, "hidden_size": h, "intermediate_size": inter, "num_hidden_layers": len(kinds),
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim, "query_pre_attn_scalar": head_dim,
        "max_position_embeddings": args.max_len, "rms_norm_eps": 1e-6, "hidden_activation": "gelu_pytorch_tanh",
        "rope_parameters": {k: {"rope_type": "default", "rope_theta": 10000.0} for k in ("sliding_attention", "full_attention")},
        "sliding_window": 64, "layer_types": kinds, "tie_word_embeddings": True, "attention_bias": False,
        "attention_dropout": 0.0, "use_cache": True, "bos_token_id": None, "eos_token_id": ids["<|im_end|>"],
        "pad_token_id": ids["<|endoftext|>"],
    })
    return write_safetensors(os.path.join(folder, "model.safetensors"), t)


def make_lora(folder, args, seed, rank=8):
    h, heads, kv_heads, head_dim = args.hidden, 4, 2, 32
    w, t = Weights(seed), {}
    for i in range(args.layers):
        for name, rows in (("q_proj", heads * head_dim), ("v_proj", kv_heads * head_dim)):
            p = f"base_model.model.model.layers.{i}.self_attn.{name}."
            t[p + "lora_A.weight"] = w.normal(h ** -0.5, rank, h)
            t[p + "lora_B.weight"] = w.normal(rank ** -0.5, rows, rank)
    os.makedirs(folder, exist_ok=True)
    write_json(os.path.join(folder, "adapter_config.json"), {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "tiny", "r": rank,
        "lora_alpha": 2 * rank, "lora_dropout": 0.0, "bias": "none", "target_modules": ["q_proj", "v_proj"],
        "inference_mode": True, "fan_in_fan_out": False, "modules_to_save": None,
    })
    return write_safetensors(os.path.join(folder, "adapter_model.safetensors"), t)


def special_ids(folder):
    with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as f:
        return {t["content"]: t["id"] for t in json.load(f)["added_tokens"]}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("dir")
    ap.add_argument("--layers", type=int, default=2)
    ap.add_argument("--hidden", type=int, default=128)
    ap.add_argument("--max-len", type=int, default=8192, help="max_position_embeddings")
    ap.add_argument("--seed", type=int, default=1)
    args = ap.parse_args()
    tiny, sliding = os.path.join(args.dir, "tiny"), os.path.join(args.dir, "tiny-sliding")
    for folder in (tiny, sliding):
        os.makedirs(folder, exist_ok=True)
    frozen = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tiny-tokenizer")
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        for folder in (tiny, sliding):
            shutil.copyfile(os.path.join(frozen, name), os.path.join(folder, name))
    digests = {"tiny": make_model(tiny, args), "tiny-sliding": make_sliding(sliding, args)}
    for n, name in enumerate(("lora-a", "lora-b")):
        digests[name] = make_lora(os.path.join(args.dir, name), args, args.seed * 1000 + n)
    for name, digest in digests.items():
        folder = os.path.join(args.dir, name)
        size = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))
        print(f"{folder}: {size} bytes, weights sha256 {digest}")
    print(f"vocabulary {VOCAB}, specials {special_ids(tiny)}")


if __name__ == "__main__":
    main()
