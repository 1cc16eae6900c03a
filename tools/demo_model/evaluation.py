"""Scores, contact sheets and the model card."""
import json
import math
import multiprocessing
import os
import random
import tarfile
import tempfile

import numpy
import torch

import captions
import checkpoints
import data
import painting
import sampling
import scenes
import scoring

BY_EYE = (
    'a large yellow moon in the top right and the word "NIGHT" in white at the bottom on a navy background',
    "three orange stars in a row on a blue background",
    'the words "GOOD DAY" in brown in the center on a solid teal background',
    'the number "2026" in black on a yellow background',
    "a green heart inside a white circle on a pink background",
    'five teal diamonds in a row and the word "ROBOT" in navy at the top on a gray background',
    "a small red cross in the top left corner and a large purple triangle on the right on an orange background",
    json.dumps({"high_level_description": "flat poster with a pink hexagon and a word",
                "compositional_deconstruction": {"background": "vertical gradient navy to purple",
                                                 "elements": [{"type": "obj", "desc": "large pink hexagon, center"},
                                                              {"type": "text", "text": "JAZZ", "desc": "yellow, bottom"}]}}, separators=(",", ":")),
)


def score(pairs):
    """Summary over (scene, picture) pairs, on all cores. Workers import numpy only and keep to one thread each; the device is in use by now, so no fork."""
    threads = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    before = {name: os.environ.get(name) for name in threads}
    os.environ.update(threads)
    try:
        with multiprocessing.get_context("spawn").Pool(max(1, min(data.cores(), 32, len(pairs) // 4))) as pool:
            return scoring.summary(pool.starmap(scoring.score_picture, pairs, chunksize=4))
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def sheet(pictures, path, columns):
    from PIL import Image

    pictures = numpy.asarray(pictures)
    count, height, width, _ = pictures.shape
    rows = -(-count // columns)
    board = numpy.full((rows * (height + 4) + 4, columns * (width + 4) + 4, 3), 255, numpy.uint8)
    for index, picture in enumerate(pictures):
        y, x = 4 + index // columns * (height + 4), 4 + index % columns * (width + 4)
        board[y : y + height, x : x + width] = picture
    Image.fromarray(board).save(path, optimize=True)


def asked_scenes(count, held):
    """canvas -> scenes; half as many of the oblong canvases."""
    return {canvas: scenes.evaluation_scenes(count if canvas == scenes.CANVASES[0] else -(-count // 2), 11 + held, held, canvas) for canvas in scenes.CANVASES}


def measure(folder, device, out, log, count, steps_list=(20, 12), most_steps=20):
    """Scores of a model folder at some numbers of steps, trained-on and held-out combinations, over the three canvases; and sheets to look at."""
    networks, _, tokenizer = checkpoints.load_model(folder, device)
    sampler, result = sampling.Sampler(networks, tokenizer, device), {}
    with tempfile.TemporaryDirectory() as sheets:
        for held, name in ((False, "in"), (True, "held_out")):
            for steps in steps_list:
                pairs = []
                for canvas, asked in asked_scenes(count, held).items():
                    prompts = captions.evaluation_captions(asked, random.Random(5))
                    pictures = sampler.draw(prompts, canvas, 2 + held, steps=min(steps, most_steps))
                    pairs += list(zip(asked, pictures))
                    if steps == steps_list[-1]:
                        sheet(pictures[:32], f"{sheets}/{name}_{canvas[0]}x{canvas[1]}.png", 8)
                result[f"{name}_{steps}"] = score(pairs)
                log(f"{name}, {steps} steps:", result[f"{name}_{steps}"])
        with tarfile.open(out / "sheets.tar", "w") as archive:  # the GPU machine sends at most 8 files
            archive.add(sheets, "sheets")
    sheet(sampler.draw(BY_EYE, scenes.CANVASES[0], 7, steps=min(12, most_steps)), out / "by_eye.png", 4)
    return result


@torch.no_grad()
def measure_round_trip(vae, device, out, log, count):
    """PSNR over pictures that were not trained on, and how many scenes survive encoding and decoding."""
    result, ratios = {}, []
    for held, name in ((False, "in"), (True, "held_out")):
        scored = []
        for canvas, asked in asked_scenes(count, held).items():
            mixed = [scenes.random_scene(random.Random(90_000 + i), canvas) for i in range(len(asked))]
            truth = painting.Painter(canvas, torch, device)(scenes.pack(asked + mixed)) * 2 - 1
            decoded = torch.cat([vae.decode(vae.encode(part)[0]).float() for part in truth.split(32)]).clamp(-1, 1)
            ratios += [10 * math.log10(4 / max(value, 1e-12)) for value in (decoded - truth).square().flatten(1).mean(1).tolist()]
            scored += list(zip(asked, painting.to_bytes((decoded[: len(asked)].cpu().numpy() + 1) / 2)))
            if canvas == scenes.CANVASES[0]:
                pairs = torch.stack([truth[:8], decoded[:8]], 1).flatten(0, 1)
                sheet(painting.to_bytes((pairs.cpu().numpy() + 1) / 2), out / f"round_trip_{name}.png", 8)
        result[name] = score(scored)
        log("round trip,", name + ":", result[name])
    result["psnr_mean"], result["psnr_least"] = round(sum(ratios) / len(ratios), 2), round(min(ratios), 2)
    log(f"round trip: {result['psnr_mean']} dB mean, {result['psnr_least']} dB least of {len(ratios)} pictures")
    return result


def card(folder, record):
    """The model card, from measured figures only."""
    parts = {name: sum(path.stat().st_size for path in (folder / name).rglob("*") if path.is_file())
             for name in ("transformer", "unconditional_transformer", "text_encoder", "vae", "tokenizer")}
    autoencoder = next((stage for stage in reversed(record) if "psnr_mean" in stage), None)
    scores = next((stage for stage in reversed(record) if "in_12" in stage), None)
    defaults = sampling.DEFAULTS
    lines = [
        "# The demo model", "",
        "A small text-to-image model in the layout of Ideogram 4.0, trained by `tools/demo_model` in this repository. It draws flat scenes: 13 named colours,",
        "10 shapes, counts, places, sizes, nesting, words and numbers of up to six characters, from sentences or JSON captions, on 256x256, 320x192 and 192x320.",
        "It knows nothing else, people and photographs included. Licence: Apache-2.0, like the repository. Lettering looks like DejaVu Sans Mono Bold.", "",
        f"Defaults: {defaults['steps']} steps, guidance {defaults['guidance']}, mu {defaults['mu']}, std {defaults['std']}.", "",
        "| part | bytes |", "|---|---:|", *(f"| {name} | {size:,} |" for name, size in parts.items()), f"| all | {sum(parts.values()):,} |", ""]
    if autoencoder:
        lines += [f"Autoencoder round trip on unseen pictures: {autoencoder['psnr_mean']} dB mean, {autoencoder['psnr_least']} dB least;", "scenes still right: "
                  f"{autoencoder['in']['scene']:.1%} of trained-on and {autoencoder['held_out']['scene']:.1%} of held-out combinations.", ""]
    if scores:
        lines += ["Scores (`tools/demo_model/scoring.py`; a scene counts when every part of it is right and nothing else is there):", "",
                  "| set | steps | scenes | scene | shape | thing | letter | word |", "|---|---:|---:|---:|---:|---:|---:|---:|"]
        for name in ("in", "held_out"):
            for steps in (20, 12):
                s = scores[f"{name}_{steps}"]
                values = " | ".join("–" if s[key] is None else f"{s[key]:.3f}" for key in ("scene", "shape", "thing", "letter", "word"))
                lines.append(f"| {name.replace('_', '-')} | {steps} | {s['scenes']} | {values} |")
        lines.append("")
    lines += ["Training:", "", "| stage | steps | minutes | device | begun from |", "|---|---:|---:|---|---|",
              *(f"| {stage['stage']} | {stage['steps']} | {stage['seconds'] / 60:.1f} | {stage['device']} | {stage['begun_from']} |" for stage in record),
              f"| all | | {sum(stage['seconds'] for stage in record) / 60:.1f} | | |", "",
              "Command: `tools/demo_model/run.sh` (its three stages, in order; `README.md` beside it)."]
    return "\n".join(lines) + "\n"
