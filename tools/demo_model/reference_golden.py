#!/usr/bin/env python3
"""What the reference pipeline (diffusers' Ideogram4Pipeline, float32, CPU) draws from the demo model: tests/golden/data/demo.

reference_golden.py [--out FOLDER] [--against FOLDER]    needs torch, diffusers >= 0.42, transformers; only to make the golden files again

Settings and prompts: demo-expected.json. Noise: that of `python3 tools/demo_model golden`, which draws the same with this folder's own sampler; --against
compares with what it wrote.
"""
import argparse
import json
import pathlib

import diffusers
import diffusers.pipelines.ideogram4.pipeline_ideogram4 as reference
import torch
import transformers
from safetensors.torch import load_file, save_file

import sampling
from evaluation import sheet

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "tests" / "golden" / "data" / "demo"


def text_encoder(folder):
    """Qwen3VLModel with the folder's language model; its eyes, which no prompt uses, are as small as they can be made."""
    fields = json.loads((folder / "config.json").read_text())["text_config"]
    eyes = {"depth": 1, "hidden_size": 16, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": fields["hidden_size"],
            "deepstack_visual_indexes": [0], "num_position_embeddings": 16}
    model = transformers.Qwen3VLModel(transformers.Qwen3VLConfig(text_config=fields, vision_config=eyes))
    weights = load_file(folder / "model.safetensors")
    model.language_model.load_state_dict({name.removeprefix("language_model."): tensor for name, tensor in weights.items()})
    return model.eval()


def pipeline(folder):
    index = json.loads((folder / "model_index.json").read_text())
    reference.QWEN3_VL_ACTIVATION_LAYERS = tuple(index["text_encoder_taps"])  # 13 of 36 layers, were it the large model
    denoisers = {name: diffusers.Ideogram4Transformer2DModel.from_pretrained(folder / name, torch_dtype=torch.float32)
                 for name in ("transformer", "unconditional_transformer")}
    return reference.Ideogram4Pipeline(
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler.from_pretrained(folder / "scheduler"), text_encoder=text_encoder(folder / "text_encoder").float(),
        tokenizer=transformers.PreTrainedTokenizerFast.from_pretrained(folder / "tokenizer"), **denoisers,
        vae=diffusers.AutoencoderKLFlux2.from_pretrained(folder / "vae", torch_dtype=torch.float32))


def compare(ours, other):
    """Largest difference a kind of tensor."""
    largest = {}
    for name, tensor in ours.items():
        kind = name.split(".")[0]
        largest[kind] = max(largest.get(kind, 0), (tensor.double() - other[name].double()).abs().max().item())
    return largest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models" / "demo")
    parser.add_argument("--settings", type=pathlib.Path, default=GOLDEN / "demo-expected.json")
    parser.add_argument("--out", type=pathlib.Path, default=GOLDEN)
    parser.add_argument("--against", type=pathlib.Path, help="a folder that `golden` wrote")
    options = parser.parse_args()
    settings = json.loads(options.settings.read_text())
    draw, canvas = pipeline(options.model), (settings["width"], settings["height"])
    draw.set_progress_bar_config(disable=True)
    tensors, pictures = {}, []

    def keep(_, step, timestep, values):
        keep.latents = values["latents"].clone()
        return values

    for index, prompt in enumerate(settings["prompts"]):
        noise = sampling.noise(1, canvas, draw.vae.bn.num_features, 40 + index)
        image = draw(prompt, height=canvas[1], width=canvas[0], num_inference_steps=settings["steps"], guidance_scale=settings["guidance"],
                     guidance_schedule=None, mu=settings["mu"], std=settings["std"], max_sequence_length=160, latents=noise.clone(), output_type="pt",
                     callback_on_step_end=keep, callback_on_step_end_tensor_inputs=["latents"]).images[0]
        pixels = (image.float() * 255).round().byte().permute(1, 2, 0).contiguous()
        tensors.update({f"noise.{index}": noise, f"latents.{index}": keep.latents.float().contiguous(), f"image.{index}": pixels})
        pictures.append(pixels.numpy())
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "demo-expected.json").write_text(json.dumps(settings, indent=1) + "\n")
    save_file(tensors, options.out / "demo-expected.safetensors")
    sheet(pictures, options.out / "demo-expected.png", len(pictures))
    print(f"diffusers {diffusers.__version__}, transformers {transformers.__version__}, torch {torch.__version__}")
    if options.against:
        print("largest difference:", compare(tensors, load_file(options.against / "demo-expected.safetensors")))


if __name__ == "__main__":
    main()
