"""Second and third command: text encoder, conditional and unconditional denoiser in one step, on latents that are encoded once."""
import time

import torch
from torch.nn import functional as F

import data
import scenes
from network import Part, packed_attention_works
from optimisers import Adam, Average, Muon, split
from stepping import CAUTION, Budget, Progress, Recorded, Rescue, synchronise

MUON_RATE, ADAM_RATE = 3e-3, 1.5e-3
WARM_UP = 300  # steps
KINDS = ("sentence", "json")


@torch.no_grad()
def encode_latents(run, until):
    """canvas -> {"latents": bf16 [n, tokens, channels], caption ids and lengths}, all on the device."""
    vae, found = run.networks["vae"].eval().requires_grad_(False), {}
    vae.to(memory_format=torch.channels_last)
    for canvas, packed, ids in run.workers.shards:
        latents = []
        for begin in range(0, len(packed["surface"]), run.size.encode_batch):
            image = run.canvases.paint(canvas, packed, begin, begin + run.size.encode_batch).mul(2).sub(1).contiguous(memory_format=torch.channels_last)
            with run.autocast():
                latents.append(vae.normalised(vae.encode(image)[0]).to(torch.bfloat16))
        entry = found.setdefault(canvas, {})
        entry.setdefault("latents", []).append(torch.cat(latents))
        for name, array in ids.items():
            entry.setdefault(name, []).append(torch.from_numpy(array).to(run.device))
        synchronise(run.device)
        if run.seconds() > until:
            break
    run.workers.close()
    return {canvas: {name: torch.cat(parts) for name, parts in entry.items()} for canvas, entry in found.items()}


class Batches:
    """Fixed shapes: every step has the same number of sentences and JSON captions of each canvas. Padding makes all canvases equally long per kind."""

    def __init__(self, found, size, device):
        self.found, self.device, self.parts = found, device, []
        most_image = max(Part(canvas, 1, 0).image for canvas in found)
        for kind in KINDS:
            for canvas in scenes.CANVASES:
                count = size.captions[kind] // (2 if canvas == scenes.CANVASES[0] else 4)
                text = data.LONGEST[kind] + most_image - Part(canvas, 1, 0).image
                self.parts.append(Part(canvas, count, text))
        self.sentences = sum(part.count for part in self.parts[: len(scenes.CANVASES)])
        self.count = sum(part.count for part in self.parts)

    def draw(self):
        """(latents by part, [(ids, lengths) of each kind])."""
        latents, texts = [], []
        for k, kind in enumerate(KINDS):
            ids, lengths = [], []
            for part in self.parts[k * len(scenes.CANVASES) : (k + 1) * len(scenes.CANVASES)]:
                entry = self.found[part.canvas]
                which = torch.randint(len(entry["latents"]), (part.count,), device=self.device)
                latents.append(entry["latents"][which].float())
                if kind == "json":
                    ids.append(entry["json"][which])
                    lengths.append(entry["json_length"][which])
                else:
                    first = torch.rand(part.count, device=self.device) < 0.5
                    ids.append(torch.where(first[:, None], entry["sentence_a"][which], entry["sentence_b"][which]))
                    lengths.append(torch.where(first, entry["sentence_a_length"][which], entry["sentence_b_length"][which]))
            texts.append((torch.cat(ids).long(), torch.cat(lengths).long()))
        return latents, texts


def model_times(count, device):
    """More weight on the noisy half; half of them rounded to bfloat16, as a bf16 engine will give them."""
    t = 1 - torch.sigmoid(0.4 + 1.4 * torch.randn(count, device=device))
    return torch.where(torch.rand(count, device=device) < 0.5, t.bfloat16().float(), t)


def compile_layers(networks):
    import torch._dynamo
    for name in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit", "accumulated_cache_size_limit"):
        if hasattr(torch._dynamo.config, name):
            setattr(torch._dynamo.config, name, 512)
    for network in networks:
        for layer in network.layers:
            layer.compile(dynamic=False)


def train(run):
    device, log, size = run.device, run.log, run.size
    text_encoder, cond, uncond = (run.networks[name] for name in ("text_encoder", "transformer", "unconditional_transformer"))
    began = time.time()
    found = run.restore("latents.pt", run.networks["vae"])
    if found is None:
        found = encode_latents(run, run.seconds() + size.encode_seconds)
        log(f"latents encoded in {time.time() - began:.0f} s")
        run.keep("latents.pt", found, run.networks["vae"])
    run.workers.close()
    log("latent set:", {f"{w}x{h}": len(entry["latents"]) for (w, h), entry in found.items()}, f"in {time.time() - began:.0f} s")

    # The unconditional denoiser sees no text; the text encoder's last norm is not part of the way.
    for parameter in (uncond.llm_cond_norm.weight, uncond.llm_cond_proj.weight, uncond.llm_cond_proj.bias):
        parameter.requires_grad_(False).zero_()
    text_encoder.norm.weight.requires_grad_(False)
    networks = (text_encoder, cond, uncond)
    cond.packed = uncond.packed = packed_attention_works(device)
    log("variable-length attention:", cond.packed)
    is_compiled = device.type == "cuda" and CAUTION < 1
    log("layers compiled (the first step takes up to a minute):", is_compiled)
    if is_compiled:
        compile_layers(networks)
    matrices, rest = split(networks)
    parameters = matrices + rest
    muon, adam, average = Muon(matrices), Adam(rest), Average(parameters, 0.999, device)
    batches = Batches(found, size, device)
    kept = run.restore("denoiser.pt", run.networks["vae"])
    first = 0
    if kept is not None:
        for network, state in zip(networks, kept["networks"]):
            network.load_state_dict(state)
        for own, stored in zip((*muon.state(), *adam.state(), average.values), kept["moments"]):
            for tensor, value in zip(own, stored):
                tensor.copy_(value)
        first = kept["step"]
        log(f"goes on at step {first} with the optimisers' state")
    muon_rate, adam_rate = torch.zeros((), device=device), torch.zeros((), device=device)
    rescue = Rescue([*parameters, *(tensor for tensors in (*muon.state(), *adam.state(), average.values) for tensor in tensors)])
    progress = Progress(("sentence", "json", "unconditional"), size.log_every, device, log, rescue)
    uncond_parts = [Part(part.canvas, part.count, 0) for part in batches.parts[: len(scenes.CANVASES)]]
    longest = max(part.text for part in batches.parts)

    def step():
        for parameter in parameters:
            parameter.grad = None
        latents, texts = batches.draw()
        t, noise = model_times(batches.count, device), [torch.randn_like(z) for z in latents]
        noisy, begin = [], 0
        for z, n in zip(latents, noise):
            share = t[begin : begin + len(z), None, None]
            noisy.append(share * z + (1 - share) * n)
            begin += len(z)
        wanted = [z - n for z, n in zip(latents, noise)]
        with run.autocast():
            features = torch.cat([F.pad(text_encoder(ids), (0, 0, 0, longest - ids.shape[1])) for ids, _ in texts])
            lengths = torch.cat([lengths for _, lengths in texts])
            velocities = cond(batches.parts, noisy, t, features, lengths)
            free = uncond(uncond_parts, noisy[: len(uncond_parts)], t[: batches.sentences])
        errors = torch.cat([(v.float() - w).square().mean((1, 2)) for v, w in zip(velocities, wanted)])
        free_error = torch.cat([(v.float() - w).square().mean((1, 2)) for v, w in zip(free, wanted)]).mean()
        (errors.mean() + free_error).backward()
        torch.nn.utils.clip_grad_norm_(rest, 1.0)
        adam.step(adam_rate)
        muon.step(muon_rate)
        average.update()
        progress.add((errors[: batches.sentences].mean(), errors[batches.sentences :].mean(), free_error))

    recorded = Recorded(step, device, log, "denoisers", warm_ups=11)
    budget, number = Budget(run.began + run.until), first
    while (used := budget.used()) < 1:
        share = min(1, (number + 1) / WARM_UP) * progress.share
        if run.finishing:
            share *= 1 - 0.98 * used
        muon_rate.fill_(MUON_RATE * share)
        adam_rate.fill_(ADAM_RATE * share * adam.correction(number))
        average.prepare(number)
        recorded()
        number += 1
        if progress.tick(number, used) and run.is_snapshot_due():
            average.exchange()
            run.snapshot({"steps": number - first, "samples": (number - first) * batches.count})
            average.exchange()
    synchronise(device)
    log(f"denoisers: {number - first} steps of {batches.count} samples, {number} in all")
    del recorded
    if not run.finishing:
        run.keep("denoiser.pt", {"networks": [network.state_dict() for network in networks], "step": number,
                                 "moments": [list(tensors) for tensors in (*muon.state(), *adam.state(), average.values)]}, run.networks["vae"])
    average.exchange()
    run.round()
    return {"steps": number - first, "samples": (number - first) * batches.count}
