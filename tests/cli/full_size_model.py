"""A model folder with the sizes of Ideogram 4.0 and no numbers: files of holes, 35 GB that take a few pages of disk. For what reads headers only."""
import json
import shutil
import struct

DTYPE_BYTES = {"BF16": 2, "F32": 4}


def write_holes(path, shapes, dtype="BF16"):
    header, at = {}, 0
    for name, shape in shapes:
        size = DTYPE_BYTES[dtype]
        for extent in shape:
            size *= extent
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)
    return at


def linear(name, out, inner):
    return [(f"{name}.weight", (out, inner)), (f"{name}.bias", (out,))]


def denoiser(has_text, d=4608, f=12288, layers=34, adaln=512, channels=128, features=53248, head=256):
    yield "embed_image_indicator.weight", (2, d)
    yield from linear("input_proj", d, channels)
    if has_text:
        yield "llm_cond_norm.weight", (features,)
        yield from linear("llm_cond_proj", d, features)
    yield from linear("t_embedding.mlp_in", d, d)
    yield from linear("t_embedding.mlp_out", d, d)
    yield from linear("adaln_proj", adaln, d)
    yield from linear("final_layer.linear", channels, d)
    yield from linear("final_layer.adaln_modulation", d, adaln)
    for i in range(layers):
        at = f"layers.{i}."
        for name, shape in (("attention.qkv", (3 * d, d)), ("attention.o", (d, d)), ("attention.norm_q", (head,)), ("attention.norm_k", (head,)), ("feed_forward.w1", (f, d)),
                            ("feed_forward.w3", (f, d)), ("feed_forward.w2", (d, f)), ("attention_norm1", (d,)), ("attention_norm2", (d,)), ("ffn_norm1", (d,)),
                            ("ffn_norm2", (d,))):
            yield f"{at}{name}.weight", shape
        yield from linear(f"{at}adaln_modulation", 4 * d, adaln)


def text_encoder(hidden=4096, layers=36, f=12288, kv=1024, head=128, vocabulary=151936):
    yield "language_model.embed_tokens.weight", (vocabulary, hidden)
    for i in range(layers):
        for name, shape in (("self_attn.q_proj", (hidden, hidden)), ("self_attn.k_proj", (kv, hidden)), ("self_attn.v_proj", (kv, hidden)), ("self_attn.o_proj", (hidden, hidden)),
                            ("self_attn.q_norm", (head,)), ("self_attn.k_norm", (head,)), ("input_layernorm", (hidden,)), ("post_attention_layernorm", (hidden,)),
                            ("mlp.gate_proj", (f, hidden)), ("mlp.up_proj", (f, hidden)), ("mlp.down_proj", (hidden, f))):
            yield f"language_model.layers.{i}.{name}.weight", shape


def autoencoder(widths=(512, 512, 256, 128), latent=32):
    def conv(name, out, inner, kernel=3):
        return [(f"{name}.weight", (out, inner, kernel, kernel)), (f"{name}.bias", (out,))]

    def norm(name, channels):
        return [(f"{name}.weight", (channels,)), (f"{name}.bias", (channels,))]

    def resnet(name, inner, out):
        yield from norm(f"{name}.norm1", inner)
        yield from conv(f"{name}.conv1", out, inner)
        yield from norm(f"{name}.norm2", out)
        yield from conv(f"{name}.conv2", out, out)
        if inner != out:
            yield from conv(f"{name}.conv_shortcut", out, inner, 1)

    yield from conv("post_quant_conv", latent, latent, 1)
    yield from conv("decoder.conv_in", widths[0], latent)
    for j in range(2):
        yield from resnet(f"decoder.mid_block.resnets.{j}", widths[0], widths[0])
    yield from norm("decoder.mid_block.attentions.0.group_norm", widths[0])
    for name in ("to_q", "to_k", "to_v", "to_out.0"):
        yield from linear(f"decoder.mid_block.attentions.0.{name}", widths[0], widths[0])
    for i, out in enumerate(widths):
        for j in range(3):
            yield from resnet(f"decoder.up_blocks.{i}.resnets.{j}", widths[max(i - 1, 0)] if j == 0 else out, out)
        if i + 1 < len(widths):
            yield from conv(f"decoder.up_blocks.{i}.upsamplers.0.conv", out, out)
    yield from norm("decoder.conv_norm_out", widths[-1])
    yield from conv("decoder.conv_out", 3, widths[-1])


def make(folder, small):
    """`small`: a model folder that gives configurations and the tokenizer. Returns the bytes of all weights."""
    shutil.copytree(small, folder, ignore=shutil.ignore_patterns("*.safetensors", "*.safetensors.index.json"))

    def change(component, values, inside=None):
        path = folder / component / "config.json"
        config = json.loads(path.read_text())
        (config if inside is None else config[inside]).update(values)
        path.write_text(json.dumps(config))

    index = json.loads((folder / "model_index.json").read_text())
    for key in ("text_encoder_taps", "generation_defaults"):
        index.pop(key, None)
    (folder / "model_index.json").write_text(json.dumps(index))
    for component in ("transformer", "unconditional_transformer"):
        change(component, {"adaln_dim": 512, "attention_head_dim": 256, "in_channels": 128, "intermediate_size": 12288, "llm_features_dim": 53248, "num_attention_heads": 18,
                           "num_layers": 34, "mrope_section": [24, 20, 20]})
    change("text_encoder", {"hidden_size": 4096, "num_hidden_layers": 36, "intermediate_size": 12288, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
                            "vocab_size": 151936}, "text_config")
    change("vae", {"block_out_channels": [128, 256, 512, 512], "latent_channels": 32, "layers_per_block": 2, "norm_num_groups": 32})
    return (write_holes(folder / "transformer" / "diffusion_pytorch_model.safetensors", denoiser(True)) +
            write_holes(folder / "unconditional_transformer" / "diffusion_pytorch_model.safetensors", denoiser(False)) +
            write_holes(folder / "text_encoder" / "model.safetensors", text_encoder()) + write_holes(folder / "vae" / "diffusion_pytorch_model.safetensors", autoencoder()))
