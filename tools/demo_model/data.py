"""Scenes by the hundred thousand: worker processes compose, caption and tokenise; the device paints."""
import multiprocessing
import os
import random

import numpy
import torch

import captions
import painting
import scenes
import text

LONGEST = {"sentence": 56, "json": 168}  # tokens with the chat template; longer captions are drawn again


def shard(job):
    """(seed, count, canvas, tokenizer's path or None) to packed scenes, with two sentences and one JSON caption each as ids."""
    seed, count, canvas, tokenizer_path = job
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    rng = random.Random(seed)
    if tokenizer_path is None:
        return canvas, scenes.pack([scenes.random_scene(rng, canvas) for _ in range(count)]), None
    tokenizer, kept, ids = text.load(tokenizer_path), [], {"sentence_a": [], "sentence_b": [], "json": []}
    while len(kept) < count:
        batch = [scenes.random_scene(rng, canvas) for _ in range(count - len(kept))]
        written = {"sentence_a": [captions.sentence(scene, rng) for scene in batch], "sentence_b": [captions.sentence(scene, rng) for scene in batch],
                   "json": [captions.json_caption(scene, rng) for scene in batch]}
        encoded = {kind: text.encode(tokenizer, prompts) for kind, prompts in written.items()}
        short = numpy.ones(len(batch), bool)
        for kind, (_, lengths) in encoded.items():
            short &= lengths <= LONGEST[kind.split("_")[0]]
        kept += [scene for scene, fits in zip(batch, short) if fits]
        for kind, (values, lengths) in encoded.items():
            ids[kind] += [(row[:length], length) for row, length, fits in zip(values, lengths, short) if fits]
    arrays = {}
    for kind, rows in ids.items():
        arrays[kind] = numpy.zeros((count, LONGEST[kind.split("_")[0]]), numpy.int16)
        for target, (row, _) in zip(arrays[kind], rows):
            target[: len(row)] = row
        arrays[kind + "_length"] = numpy.array([length for _, length in rows], numpy.int16)
    return canvas, scenes.pack(kept), arrays


def cores():
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """Started before the device is touched. Shards come in order, so the same seed gives the same data."""

    def __init__(self, seed, counts, shard_size, tokenizer_path):
        jobs = [(seed * 1_000_003 + 10_007 * c + k, min(shard_size, count - k * shard_size), canvas, tokenizer_path)
                for c, (canvas, count) in enumerate(counts.items()) for k in range(-(-count // shard_size))]
        random.Random(seed).shuffle(jobs)  # a stage that stops early has seen every canvas
        self.pool = multiprocessing.get_context("fork").Pool(max(1, min(cores() - 2, len(jobs))))
        self.shards = self.pool.imap(shard, jobs)

    def close(self):
        self.pool.terminate()


class Canvases:
    """Paints on the device: one painter a canvas."""

    def __init__(self, device):
        self.painters = {canvas: painting.Painter(canvas, torch, device) for canvas in scenes.CANVASES}

    def paint(self, canvas, packed, begin=0, end=None):
        return self.painters[canvas](packed, begin, end)


def picture_pool(workers, canvases):
    """canvas -> uint8 [n, 3, h, w] on the device."""
    pool = {}
    for canvas, packed, _ in workers.shards:
        for begin in range(0, len(packed["surface"]), 500):
            image = canvases.paint(canvas, packed, begin, begin + 500)
            pool.setdefault(canvas, []).append((image * 255).round_().to(torch.uint8))
    return {canvas: torch.cat(parts) for canvas, parts in pool.items()}
