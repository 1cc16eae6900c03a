"""Weights to and from folders: the layout of Ideogram 4 in bfloat16, and growing a model into one with more latent channels."""
import dataclasses
import json
import pathlib
import shutil

import torch
from safetensors.torch import load_file, save_file

import sampling
import scenes
import text

LARGEST_FILE = 15 << 20  # bytes; a file has to come back from the GPU machine, which sends at most 16 MiB
CHAT_TEMPLATE = ("{%- for m in messages -%}{{ '<|im_start|>' + m.role + '\n' }}{%- if m.content is string -%}{{ m.content }}{%- else -%}"
                 "{%- for c in m.content -%}{{ c.text }}{%- endfor -%}{%- endif -%}{{ '<|im_end|>\n' }}{%- endfor -%}"
                 "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}")
PREFIX = {"text_encoder": "language_model."}
FILE = {"text_encoder": "model.safetensors"}


def canvases():
    """The canvas that is drawn where none is asked, and the others that it was trained on."""
    (width, height), *others = scenes.CANVASES
    return {"width": width, "height": height, "sizes": [list(canvas) for canvas in others]}


def configs(sizes):
    def denoiser(shape):
        hidden, heads, layers, inner = shape
        return {"_class_name": "Ideogram4Transformer2DModel", "adaln_dim": sizes.adaln, "attention_head_dim": hidden // heads,
                "in_channels": sizes.token_channels, "intermediate_size": inner, "llm_features_dim": sizes.features,
                "mrope_section": list(sizes.sections), "norm_eps": 1e-05, "num_attention_heads": heads, "num_layers": layers, "rope_theta": int(sizes.theta)}

    levels = len(sizes.vae_channels)
    half = sizes.text_head // 2
    return {
        "transformer/config.json": denoiser(sizes.cond),
        "unconditional_transformer/config.json": denoiser(sizes.uncond),
        "text_encoder/config.json": {
            "architectures": ["Qwen3VLModel"], "dtype": "bfloat16", "model_type": "qwen3_vl",
            "text_config": {"attention_bias": False, "head_dim": sizes.text_head, "hidden_act": "silu", "hidden_size": sizes.text_hidden,
                            "intermediate_size": sizes.text_inner, "max_position_embeddings": 4096, "model_type": "qwen3_vl_text",
                            "num_attention_heads": sizes.text_heads, "num_hidden_layers": sizes.text_layers, "num_key_value_heads": sizes.text_kv_heads,
                            "rms_norm_eps": 1e-06, "rope_parameters": {"mrope_interleaved": True, "mrope_section": [half // 2, half // 4, half // 4],
                                                                        "rope_theta": sizes.text_theta, "rope_type": "default"},
                            "vocab_size": sizes.vocabulary}},
        "vae/config.json": {
            "_class_name": "AutoencoderKLFlux2", "act_fn": "silu", "batch_norm_eps": 0.0001, "batch_norm_momentum": 0.1,
            "block_out_channels": list(sizes.vae_channels), "down_block_types": ["DownEncoderBlock2D"] * levels,
            "up_block_types": ["UpDecoderBlock2D"] * levels, "force_upcast": True, "in_channels": 3, "out_channels": 3, "latent_channels": sizes.latent,
            "layers_per_block": sizes.vae_layers, "mid_block_add_attention": True, "norm_num_groups": sizes.groups, "patch_size": [2, 2], "sample_size": 256,
            "use_quant_conv": True, "use_post_quant_conv": True},
        "scheduler/scheduler_config.json": {"_class_name": "FlowMatchEulerDiscreteScheduler", "num_train_timesteps": 1000, "shift": 1.0},
        "tokenizer/tokenizer_config.json": {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "tokenizer_class": "PreTrainedTokenizerFast",
                                            "chat_template": CHAT_TEMPLATE},
        "model_index.json": {
            "_class_name": "Ideogram4Pipeline", "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
            "text_encoder": ["transformers", "Qwen3VLModel"], "tokenizer": ["transformers", "PreTrainedTokenizerFast"],
            "transformer": ["diffusers", "Ideogram4Transformer2DModel"], "unconditional_transformer": ["diffusers", "Ideogram4Transformer2DModel"],
            "vae": ["diffusers", "AutoencoderKLFlux2"], "text_encoder_taps": list(range(sizes.text_layers)),
            "generation_defaults": {**canvases(), **sampling.DEFAULTS}},
    }


def export(networks, sizes, tokenizer, folder):
    """Writes a complete model folder."""
    folder = pathlib.Path(folder)
    if folder.exists():
        shutil.rmtree(folder)
    for name, config in configs(sizes).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(config, indent=2) + "\n")
    tokenizer.save(str(folder / "tokenizer" / "tokenizer.json"))
    for name, network in networks.items():
        tensors = {PREFIX.get(name, "") + key: (value.to(torch.bfloat16) if value.is_floating_point() else value).contiguous().cpu()
                   for key, value in network.state_dict().items()}
        save_shards(tensors, folder / name, FILE.get(name, "diffusion_pytorch_model.safetensors"))


def save_shards(tensors, folder, file_name):
    """One file, or several with an index where one would be too large."""
    shards, size = [{}], 0
    for key in sorted(tensors):
        bytes_of_it = tensors[key].numel() * tensors[key].element_size()
        if size + bytes_of_it > LARGEST_FILE:
            shards.append({})
            size = 0
        shards[-1][key] = tensors[key]
        size += bytes_of_it
    if len(shards) == 1:
        save_file(tensors, folder / file_name, metadata={"format": "pt"})
        return
    stem, names = file_name.removesuffix(".safetensors"), {}
    for number, shard in enumerate(shards, 1):
        name = f"{stem}-{number:05}-of-{len(shards):05}.safetensors"
        save_file(shard, folder / name, metadata={"format": "pt"})
        names.update(dict.fromkeys(shard, name))
    total = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    (folder / (file_name + ".index.json")).write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": names}, indent=1) + "\n")


def read_tensors(folder):
    tensors = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        tensors.update(load_file(path))
    prefix = PREFIX.get(pathlib.Path(folder).name, "")
    return {key.removeprefix(prefix): value.float() if value.is_floating_point() else value for key, value in tensors.items()}


def sizes_of(folder):
    """The sizes that a model folder's configs name."""
    def read(name):
        return json.loads((pathlib.Path(folder) / name / "config.json").read_text())

    def shape(config):
        heads = config["num_attention_heads"]
        return heads * config["attention_head_dim"], heads, config["num_layers"], config["intermediate_size"]

    from network import Sizes
    cond, uncond, vae, language = read("transformer"), read("unconditional_transformer"), read("vae"), read("text_encoder")["text_config"]
    return Sizes(latent=vae["latent_channels"], vae_channels=tuple(vae["block_out_channels"]), vae_layers=vae["layers_per_block"], groups=vae["norm_num_groups"],
                 vocabulary=language["vocab_size"], text_hidden=language["hidden_size"], text_layers=language["num_hidden_layers"],
                 text_heads=language["num_attention_heads"], text_kv_heads=language["num_key_value_heads"], text_head=language["head_dim"],
                 text_inner=language["intermediate_size"], text_theta=language["rope_parameters"]["rope_theta"], cond=shape(cond), uncond=shape(uncond),
                 adaln=cond["adaln_dim"], theta=float(cond["rope_theta"]), sections=tuple(cond["mrope_section"]))


def load_into(networks, folder, sizes):
    """Loads a folder whose model may have fewer latent channels; what is new keeps its fresh values, except that the denoisers begin by saying 0 there."""
    old = sizes_of(folder)
    if dataclasses.replace(old, latent=sizes.latent) != sizes:
        raise ValueError(f"'{folder}' holds a model of other sizes: {old}, wanted {sizes}")
    if old.latent > sizes.latent:
        raise ValueError(f"'{folder}' has {old.latent} latent channels, more than the {sizes.latent} wanted")
    a, b = old.latent, sizes.latent
    channel = torch.arange(a)
    moments = torch.cat([channel, b + channel])  # means, then log variances
    tokens = torch.cat([patch * b + channel for patch in range(4)])  # (row, column, channel)
    axes = {"encoder.conv_out.weight": (moments,), "encoder.conv_out.bias": (moments,), "quant_conv.weight": (moments, moments), "quant_conv.bias": (moments,),
            "post_quant_conv.weight": (channel, channel), "post_quant_conv.bias": (channel,), "decoder.conv_in.weight": (None, channel),
            "bn.running_mean": (tokens,), "bn.running_var": (tokens,),
            "input_proj.weight": (None, tokens), "final_layer.linear.weight": (tokens,), "final_layer.linear.bias": (tokens,)}
    for name, network in networks.items():
        state = network.state_dict()
        tensors = read_tensors(pathlib.Path(folder) / name)
        if tensors.keys() != state.keys():
            raise ValueError(f"'{folder}/{name}': other tensors than wanted: {sorted(tensors.keys() ^ state.keys())[:4]}")
        for key, value in tensors.items():
            if a == b or key not in axes:
                state[key].copy_(value)
                continue
            if name == "vae" and key.endswith("quant_conv.weight"):  # new channels pass straight through
                state[key].copy_(torch.eye(state[key].shape[0])[..., None, None])
            if key == "encoder.conv_out.bias":  # new channels begin certain, else their noise would drown the picture
                state[key][b:] = -6
            first, *second = axes[key]
            first = torch.arange(value.shape[0]) if first is None else first
            if key in ("quant_conv.weight", "post_quant_conv.weight"):
                state[key][first] = state[key][first] * 0
            if second:
                state[key][first[:, None], second[0][None, :]] = value.to(state[key].device)
            else:
                state[key][first] = value.to(state[key].device)


def rounded(networks):
    """bfloat16 and back: what an export will hold."""
    for network in networks.values():
        for tensor in network.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(tensor.to(torch.bfloat16))


def load_model(folder, device="cpu"):
    """(networks, sizes, tokenizer) of an exported folder."""
    from network import build
    sizes = sizes_of(folder)
    networks = build(sizes)
    load_into(networks, folder, sizes)
    for network in networks.values():
        network.eval().requires_grad_(False).to(device)
    return networks, sizes, text.load(pathlib.Path(folder) / "tokenizer" / "tokenizer.json")
