"""Noise to pictures with torch, as the reference pipeline and the engine do it (docs/numerics.md has the formulas)."""
import math

import torch

import text
from network import Part

DEFAULTS = {"steps": 12, "guidance": 2.5, "mu": 0.7, "std": 1.5}  # exported as generation_defaults


def sigmas(steps, mu, std, canvas):
    """Logit-normal quantiles, shifted by the canvas's area; noisiest first, the last exactly 0."""
    shifted = mu + 0.5 * math.log(canvas[0] * canvas[1] / 512**2)
    quantiles = torch.special.ndtri(torch.linspace(0, 1, steps + 1, dtype=torch.float64))
    t = (1 - torch.special.expit(shifted + std * quantiles)).clamp(1 / (1 + math.exp(9.0)), 1 / (1 + math.exp(-7.5)))
    return (1 - t).flip(0)[:-1].float().tolist() + [0.0]


def noise(count, canvas, channels, seed):
    """Row i does not depend on count."""
    tokens = Part(canvas, 1, 0).image
    return torch.stack([torch.randn(tokens, channels, generator=torch.Generator().manual_seed(seed * 100003 + i)) for i in range(count)])


class Sampler:
    def __init__(self, networks, tokenizer, device):
        self.networks, self.tokenizer, self.device = networks, tokenizer, device

    @torch.no_grad()
    def latents(self, prompts, canvas, start, steps=DEFAULTS["steps"], guidance=DEFAULTS["guidance"], mu=DEFAULTS["mu"], std=DEFAULTS["std"]):
        ids, lengths = (torch.from_numpy(array).to(self.device) for array in text.encode(self.tokenizer, prompts))
        features = self.networks["text_encoder"](ids)
        cond, uncond = [Part(canvas, len(prompts), ids.shape[1])], [Part(canvas, len(prompts), 0)]
        levels, z = sigmas(steps, mu, std, canvas), start.to(self.device).float()
        for now, after in zip(levels, levels[1:]):
            t = torch.full((len(prompts),), 1 - now, device=self.device)
            velocity = self.networks["transformer"](cond, [z], t, features, lengths)[0].float()
            if guidance != 1:
                velocity = guidance * velocity + (1 - guidance) * self.networks["unconditional_transformer"](uncond, [z], t)[0].float()
            z = z + (now - after) * velocity
        return z

    @torch.no_grad()
    def decode(self, z, canvas):
        """[n, height, width, 3] uint8, numpy."""
        grid = Part(canvas, 1, 0).grid
        images = torch.cat([self.networks["vae"].decode_tokens(part, grid).float() for part in z.split(32)])
        return ((images.clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).contiguous().cpu().numpy()

    def draw(self, prompts, canvas, seed, **settings):
        start = noise(len(prompts), canvas, self.networks["vae"].bn.num_features, seed)
        pieces = range(0, len(prompts), 128)
        return [picture for k in pieces for picture in self.decode(self.latents(prompts[k : k + 128], canvas, start[k : k + 128], **settings), canvas)]
