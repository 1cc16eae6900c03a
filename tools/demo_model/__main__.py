#!/usr/bin/env python3
"""Trains the demo model. python3 tools/demo_model STAGE --help; README.md says how the stages follow one another.

vae        a better autoencoder
denoiser   text encoder and both denoisers, part one
finish     the same with falling rates; scores, model card
unpack     a model folder from the archives that a stage left
score      a model folder's scores, round trip and pictures
golden     what this model draws in float32 with torch: the reference pictures of the engine's tests
bake       glyphs.npz from a font
self-test  what can be checked without a GPU
"""
import argparse
import contextlib
import dataclasses
import json
import multiprocessing
import os
import pathlib
import sys
import tarfile
import tempfile
import time
import traceback

BEGAN = time.time()  # a stage's seconds count from here: importing torch takes some of them
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LARGEST_ARCHIVE = 15 << 20
SNAPSHOT_SECONDS = 100  # between archives of an unfinished stage


@dataclasses.dataclass(frozen=True)
class Amounts:
    """How much of everything: on an H200, and for trying the whole way on a CPU."""

    pool: dict
    scenes: dict
    captions: dict
    shard: int = 2000
    crop_batch: int = 64
    whole_batch: int = 24
    statistics: int = 2048
    encode_batch: int = 200
    encode_seconds: float = 60
    evaluation: int = 128
    most_steps: int = 20
    log_every: int = 200


def amounts(smoke):
    square, wide, tall = (256, 256), (320, 192), (192, 320)
    if smoke:
        return Amounts({square: 16, wide: 8, tall: 8}, {square: 12, wide: 8, tall: 8}, {"sentence": 4, "json": 4}, shard=8, crop_batch=4, whole_batch=1,
                       statistics=4, encode_batch=4, evaluation=2, most_steps=2, log_every=2)
    return Amounts({square: 20000, wide: 10000, tall: 10000}, {square: 80000, wide: 40000, tall: 40000}, {"sentence": 144, "json": 80})


class Run:
    """One stage's surroundings: device, networks, data, clock, places."""

    def __init__(self, options, stage):
        import torch

        import checkpoints
        import data
        import network
        import text
        from stepping import CAUTION, Log

        self.options, self.stage, self.finishing, self.size = options, stage, stage == "finish", amounts(options.smoke)
        self.out, self.weights, self.work = options.out, options.weights, options.work
        self.out.mkdir(parents=True, exist_ok=True)
        self.work.mkdir(parents=True, exist_ok=True)
        self.log, self.began = Log(self.out / f"{stage}.log", BEGAN), BEGAN
        self.until = options.seconds - options.reserve
        self.next_snapshot = time.time() + SNAPSHOT_SECONDS
        self.to_tokens = network.to_tokens

        self.begun_from = str(self.weights) if (self.weights / "model_index.json").exists() else options.start
        self.tokenizer_path = self.work / "tokenizer.json"
        if self.begun_from:
            source = pathlib.Path(self.begun_from)
            self.tokenizer_path.write_bytes((source / "tokenizer" / "tokenizer.json").read_bytes())
        else:
            text.train(network.SHIPPED.vocabulary).save(str(self.tokenizer_path))
        counts = self.size.pool if stage == "vae" else self.size.scenes
        # Workers fork before the device is touched.
        self.workers = data.Workers(options.seed + (0 if stage == "vae" else 1), counts, self.size.shard, None if stage == "vae" else str(self.tokenizer_path))
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(options.seed + ("vae", "denoiser", "finish").index(stage))  # or the last stage would draw the batches of the one before again
        torch.set_float32_matmul_precision("high")
        self.sizes = dataclasses.replace(network.SMOKE if options.smoke else network.SHIPPED, latent=options.latent)
        self.networks = network.build(self.sizes)
        if self.begun_from:
            with torch.no_grad():
                checkpoints.load_into(self.networks, pathlib.Path(self.begun_from), self.sizes)
        for part in self.networks.values():
            part.to(self.device).train()
        self.tokenizer = text.load(self.tokenizer_path)
        self.canvases = data.Canvases(self.device)
        self.record = self.read_record()
        self.log(f"{stage} on {self.device_name()}, begun from {self.begun_from or 'nothing'}, torch {torch.__version__}, {data.cores()} cores, caution {CAUTION}")

    def seconds(self):
        return time.time() - self.began

    def device_name(self):
        import torch
        return torch.cuda.get_device_name() if self.device.type == "cuda" else "CPU"

    def autocast(self):
        import torch
        return torch.autocast("cuda", torch.bfloat16) if self.device.type == "cuda" else contextlib.nullcontext()

    def round(self):
        import torch

        import checkpoints
        with torch.no_grad():
            checkpoints.rounded(self.networks)

    def keep(self, name, value, vae):
        """Machine-local; a stage on another machine works without it. Belongs to one autoencoder."""
        import torch
        torch.save({"value": value, "vae": fingerprint(vae)}, self.work / name)

    def restore(self, name, vae):
        import torch
        path = self.work / name
        if not path.exists():
            return None
        kept = torch.load(path, map_location=self.device, weights_only=True)
        return kept["value"] if kept["vae"] == fingerprint(vae) else None

    def read_record(self):
        path = self.weights / "training.json"
        return json.loads(path.read_text()) if path.exists() else []

    def entry(self, facts):
        begun_from = f"the {self.record[-1]['stage']} stage" if self.record else f"`{self.begun_from}`" if self.begun_from else "random weights"
        return {"stage": self.stage, "seconds": round(self.seconds(), 1), "device": self.device_name(), "begun_from": begun_from, "seed": self.options.seed, **facts}

    def write(self, facts):
        """The model folder with its card and record; and archives of it that are small enough to come back."""
        import evaluation

        self.record.append(self.entry(facts))
        (self.weights / "training.json").write_text(json.dumps(self.record, indent=1) + "\n")
        card = evaluation.card(self.weights, self.record)
        (self.weights / "README.md").write_text(card)
        print(card, flush=True)
        pack(self.weights, self.out)
        self.log(f"{self.stage}: model written")

    def is_snapshot_due(self):
        return time.time() >= self.next_snapshot

    def snapshot(self, facts):
        """Archives of the model as it is, for when the stage does not live to its end; the model folder stays what it was."""
        import checkpoints

        began, folder = time.time(), self.work / "snapshot"
        checkpoints.export(self.networks, self.sizes, self.tokenizer, folder)
        (folder / "training.json").write_text(json.dumps([*self.record, self.entry({**facts, "unfinished": True})], indent=1) + "\n")
        pack(folder, self.out)
        self.log(f"snapshot in {time.time() - began:.1f} s")
        self.next_snapshot = time.time() + SNAPSHOT_SECONDS


def fingerprint(network):
    import hashlib
    digest = hashlib.sha256()
    for tensor in network.state_dict().values():
        digest.update(tensor.detach().float().contiguous().cpu().numpy().tobytes())
    return digest.hexdigest()


def pack(folder, out):
    """Old archives stay until the new ones are whole."""
    bins = []
    for path in sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: -path.stat().st_size):
        size = path.stat().st_size + 2048
        target = next((entry for entry in bins if entry[0] + size <= LARGEST_ARCHIVE), None)
        if target is None:
            bins.append(target := [0, []])
        target[0] += size
        target[1].append(path)
    with tempfile.TemporaryDirectory(dir=out) as place:
        for number, (_, paths) in enumerate(bins, 1):
            with tarfile.open(pathlib.Path(place) / f"model-{number}.tar", "w") as archive:
                for path in paths:
                    archive.add(path, path.relative_to(folder))
        for old in out.glob("model-*.tar"):
            old.unlink()
        for new in pathlib.Path(place).iterdir():
            new.rename(out / new.name)


def unpack(options):
    archives = sorted(options.archives.glob("model-*.tar"))
    if not archives:
        sys.exit(f"unpack: no model-*.tar in '{options.archives}'; give the folder that a stage wrote to")
    options.folder.mkdir(parents=True, exist_ok=True)
    for archive in archives:
        with tarfile.open(archive) as file:
            file.extractall(options.folder, filter="data")
    print(f"unpack: {len(archives)} archives into {options.folder}")


def train(options):
    """Ends the process itself on an error: after a failed recording even Python's own clean-up can hang."""
    try:
        train_stage(options)
    except Exception:
        text = f"{options.command} FAILED\n{traceback.format_exc()}"
        print(text, flush=True)
        with open(options.out / f"{options.command}.log", "a", encoding="utf-8") as file:
            file.write(text)
        for child in multiprocessing.active_children():
            child.terminate()
        os._exit(1)


def train_stage(options):
    import checkpoints
    import denoiser_stage
    import evaluation
    import vae_stage

    run = Run(options, options.command)
    is_autoencoder = options.command == "vae"
    facts = (vae_stage if is_autoencoder else denoiser_stage).train(run)
    checkpoints.export(run.networks, run.sizes, run.tokenizer, run.weights)
    run.write(facts)
    if is_autoencoder or run.finishing:  # what was written above is complete; only the scores are missing
        try:
            if is_autoencoder:
                scores = evaluation.measure_round_trip(run.networks["vae"], run.device, run.out, run.log, run.size.evaluation)
            else:
                scores = evaluation.measure(run.weights, run.device, run.out, run.log, run.size.evaluation, most_steps=run.size.most_steps)
        except Exception as error:  # the weights are worth more than their scores: `score` can measure them elsewhere
            run.log("NOT MEASURED: " + traceback.format_exc())
            scores = {"not_measured": repr(error)[:300]}
        run.record.pop()
        run.write({**facts, **scores})
    run.log(f"{run.stage} done")


def score(options):
    import torch

    import checkpoints
    import evaluation
    from stepping import Log

    options.out.mkdir(parents=True, exist_ok=True)
    log, device = Log(options.out / "score.log", BEGAN), torch.device("cuda" if torch.cuda.is_available() else "cpu")
    vae = checkpoints.load_model(options.model, device)[0]["vae"]
    evaluation.measure_round_trip(vae, device, options.out, log, options.count)
    evaluation.measure(options.model, device, options.out, log, options.count, tuple(options.steps))


def golden(options):
    import torch

    import checkpoints
    import sampling
    from evaluation import sheet
    from safetensors.torch import save_file

    networks, _, tokenizer = checkpoints.load_model(options.model)
    settings = json.loads(options.settings.read_text())
    sampler, canvas = sampling.Sampler(networks, tokenizer, torch.device("cpu")), (settings["width"], settings["height"])
    tensors, pictures = {}, []
    for index, prompt in enumerate(settings["prompts"]):
        start = sampling.noise(1, canvas, networks["vae"].bn.num_features, 40 + index)
        latents = sampler.latents([prompt], canvas, start, **{key: settings[key] for key in ("steps", "guidance", "mu", "std")})
        pictures.append(sampler.decode(latents, canvas)[0])
        tensors.update({f"noise.{index}": start, f"latents.{index}": latents, f"image.{index}": torch.from_numpy(pictures[-1])})
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "demo-expected.json").write_text(json.dumps(settings, indent=1) + "\n")
    save_file(tensors, options.out / "demo-expected.safetensors")
    sheet(pictures, options.out / "demo-expected.png", len(pictures))


def main():
    parser = argparse.ArgumentParser(prog="tools/demo_model", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for stage, reserve in (("vae", 30), ("denoiser", 25), ("finish", 80)):
        command = commands.add_parser(stage)
        command.add_argument("--seconds", type=float, required=True, help="wall clock of the whole stage")
        command.add_argument("--reserve", type=float, default=reserve, help="of them, kept for measuring and writing (default %(default)s)")
        command.add_argument("--weights", type=pathlib.Path, required=True, help="model folder that the stage goes on from, if it is there, and writes")
        command.add_argument("--start", help="model folder to begin from when --weights is not there; without both: random weights")
        command.add_argument("--work", type=pathlib.Path, required=True, help="machine-local state between stages; may be empty")
        command.add_argument("--out", type=pathlib.Path, required=True, help="logs, sheets, archives of the model folder")
        command.add_argument("--latent", type=int, default=16, help="latent channels (default 16)")
        command.add_argument("--seed", type=int, default=1)
        command.add_argument("--smoke", action="store_true", help="toy sizes: every line runs, nothing is learned")
        command.set_defaults(action=train)
    command = commands.add_parser("unpack")
    command.add_argument("archives", type=pathlib.Path)
    command.add_argument("folder", type=pathlib.Path)
    command.set_defaults(action=unpack)
    command = commands.add_parser("score")
    command.add_argument("--model", type=pathlib.Path, default=ROOT / "models" / "demo")
    command.add_argument("--count", type=int, default=128, help="scenes of 256x256 in each set; half as many of each oblong canvas (default 128)")
    command.add_argument("--steps", type=int, nargs="+", default=[20, 12])
    command.add_argument("--out", type=pathlib.Path, required=True)
    command.set_defaults(action=score)
    command = commands.add_parser("golden")
    command.add_argument("--model", type=pathlib.Path, default=ROOT / "models" / "demo")
    command.add_argument("--settings", type=pathlib.Path, default=ROOT / "tests" / "golden" / "data" / "demo" / "demo-expected.json")
    command.add_argument("--out", type=pathlib.Path, required=True)
    command.set_defaults(action=golden)
    command = commands.add_parser("bake")
    command.add_argument("font")
    command.set_defaults(action=lambda options: __import__("painting").bake_atlas(options.font))
    command = commands.add_parser("self-test")
    command.set_defaults(action=lambda options: __import__("self_test").main())
    options = parser.parse_args()
    options.action(options)


if __name__ == "__main__":
    main()
