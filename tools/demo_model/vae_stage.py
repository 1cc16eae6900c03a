"""First command: a better autoencoder. The recipe is in train(); the stage ends by its clock, not by a step count."""
import math

import torch
from torch.nn import functional as F

import data
import scenes
from optimisers import Adam, Average
from stepping import Budget, Progress, Recorded, Rescue, synchronise

CROP = 128
CROP_SHARE = 0.55  # of the time on crops (more different edges a second), the rest on whole pictures (the statistics that the decoder will meet)
PEAK_RATE = 1e-3
LATENT_NOISE = 0.05  # of the latents' deviation, at most: about what the denoiser will leave. 0.12 made edges wobble
KL_WEIGHT = 5e-5
HALF_SIZE_WEIGHT = 0.1  # decoding of half-size latents to half-size pictures: keeps the latent space smooth
GRADIENT_WEIGHT = 0.7


def contrast_weight(images):
    """1 on flat areas, up to 4 where a faint edge lies (local deviation 0.15), 2 at a strong one: low-contrast words would else cost next to nothing."""
    def around(values):  # mean over 15 x 15 pixels, one axis after the other
        return F.avg_pool2d(F.avg_pool2d(values, (15, 1), 1, (7, 0), count_include_pad=False), (1, 15), 1, (0, 7), count_include_pad=False)

    variance = (around(images.square()) - around(images).square()).clamp(min=0)
    deviation = variance.mean(1, keepdim=True).add(1e-6).sqrt()  # +1e-6: the root's slope at 0
    return 1 + 0.9 * deviation / (deviation.square() + 0.15**2)


def losses(vae, images, noise):
    """(loss, the parts that are printed)."""
    mean, log_variance = vae.encode(images)
    deviation = mean.detach().std()
    z = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
    z = z + noise * deviation * torch.rand(len(z), 1, 1, 1, device=z.device) * torch.randn_like(mean)
    difference = vae.decode(z).float() - images
    with torch.no_grad():
        weight = contrast_weight(images)
    pixel = (weight * difference.abs()).mean()
    across, down = difference[..., 1:] - difference[..., :-1], difference[..., 1:, :] - difference[..., :-1, :]
    edge = (weight[..., 1:] * across.abs()).mean() + (weight[..., 1:, :] * down.abs()).mean()
    quarter = max(1, len(images) // 4)
    half = (vae.decode(F.avg_pool2d(z[:quarter], 2)).float() - F.avg_pool2d(images[:quarter], 2)).abs().mean()
    square = difference.square().mean()
    kl = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).mean()
    return pixel + GRADIENT_WEIGHT * edge + square + HALF_SIZE_WEIGHT * half + KL_WEIGHT * kl, (pixel, edge, square, half, kl)


def crops(pool, count):
    """Random CROP-sized squares of a pool of pictures, in -1..1."""
    device, (total, _, height, width) = pool.device, pool.shape
    span = torch.arange(CROP, device=device)
    which = torch.randint(total, (count,), device=device)[:, None, None, None]
    y = torch.randint(height - CROP + 1, (count, 1), device=device) + span
    x = torch.randint(width - CROP + 1, (count, 1), device=device) + span
    images = pool[which, torch.arange(3, device=device)[None, :, None, None], y[:, None, :, None], x[:, None, None, :]]
    return images.float() / 127.5 - 1


def whole(pool, count):
    return pool[torch.randint(len(pool), (count,), device=pool.device)].float() / 127.5 - 1


def train(run):
    """run: the session of __main__. Leaves run.networks['vae'] trained, averaged, rounded to bfloat16, with its latent statistics."""
    device, log, vae = run.device, run.log, run.networks["vae"]
    size = run.size
    pool = data.picture_pool(run.workers, run.canvases)
    run.workers.close()
    log("picture pool:", {f"{w}x{h}": len(pictures) for (w, h), pictures in pool.items()})
    vae.to(memory_format=torch.channels_last)
    parameters = list(vae.parameters())
    optimiser, average = Adam(parameters), Average(parameters, 0.999, device)
    rate = torch.zeros((), device=device)
    rescue = Rescue([*parameters, *optimiser.first, *optimiser.second, *average.values])
    progress = Progress(("pixel", "edge", "square", "half", "kl"), size.log_every, device, log, rescue)

    def step_on(name, batch):
        def step():
            for parameter in parameters:
                parameter.grad = None
            with run.autocast():
                loss, parts = losses(vae, batch().contiguous(memory_format=torch.channels_last), LATENT_NOISE)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimiser.step(rate)
            average.update()
            progress.add(parts)

        return Recorded(step, device, log, name)

    square, *others = scenes.CANVASES
    shares = {square: size.crop_batch // 2, **{canvas: size.crop_batch // 4 for canvas in others}}
    cropped = step_on("crops", lambda: torch.cat([crops(pool[canvas], count) for canvas, count in shares.items()]))
    wholes = {canvas: step_on(f"whole {canvas[0]}x{canvas[1]}", lambda canvas=canvas: whole(pool[canvas], size.whole_batch)) for canvas in scenes.CANVASES}
    turn = [square, others[0], square, others[1]]
    opening = [kind for kind in (cropped, *wholes.values()) for _ in range(6)]  # all is recorded in the first seconds, so that what fails fails there

    budget, step = Budget(run.began + run.until), 0
    while (used := budget.used()) < 1:
        rate.fill_(PEAK_RATE * min(1, (step + 1) / 150) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * used))) * optimiser.correction(step)
                   * progress.share)
        average.prepare(step)
        (opening[step] if step < len(opening) else cropped if used < CROP_SHARE else wholes[turn[step % 4]])()
        step += 1
        if progress.tick(step, used) and run.is_snapshot_due():
            average.exchange()
            measure_latents(run, pool, size.statistics // 4)
            run.snapshot({"steps": step})
            average.exchange()
    synchronise(device)
    average.exchange()
    log(f"autoencoder: {step} steps")
    vae.eval().requires_grad_(False)
    measure_latents(run, pool, size.statistics)
    run.round()  # from here on the autoencoder is what will be shipped
    return {"steps": step}


@torch.no_grad()
def measure_latents(run, pool, count):
    """The latents' statistics over `count` pictures of each canvas, into vae.bn."""
    vae = run.networks["vae"]
    total = square = seen = 0
    for pictures in pool.values():
        for part in pictures[:count].split(64):
            with run.autocast():
                mean = vae.encode(part.float().div(127.5).sub(1).contiguous(memory_format=torch.channels_last))[0]
            tokens = run.to_tokens(mean.contiguous()).double().flatten(0, 1)
            total, square, seen = total + tokens.sum(0), square + tokens.square().sum(0), seen + len(tokens)
    vae.bn.running_mean.copy_(total / seen)
    vae.bn.running_var.copy_(square / seen - (total / seen) ** 2)
