"""The five networks' torch form. Parameter names are those of the published checkpoints (Ideogram4Transformer2DModel, AutoencoderKLFlux2, the language
model of Qwen3VLModel), so the engine reads the weights as they are saved."""
import dataclasses
import math

import torch
from torch import nn
from torch.nn import functional as F

try:
    from torch.nn.attention.varlen import varlen_attn
except ImportError:  # before torch 2.10
    varlen_attn = None

IMAGE_POSITION = 65536  # image tokens' positions start here
PIXELS_PER_TOKEN = 16


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Everything a folder of configs says about sizes."""

    latent: int = 16
    vae_channels: tuple = (32, 64, 128, 128)
    vae_layers: int = 1
    groups: int = 8
    vocabulary: int = 640
    text_hidden: int = 192
    text_layers: int = 4
    text_heads: int = 6
    text_kv_heads: int = 2
    text_head: int = 32
    text_inner: int = 512
    text_theta: float = 10000.0
    cond: tuple = (384, 6, 7, 640)  # hidden, heads, layers, inner
    uncond: tuple = (256, 4, 4, 512)
    adaln: int = 64
    theta: float = 1000.0
    sections: tuple = (8, 6, 6)

    @property
    def token_channels(self):
        return 4 * self.latent

    @property
    def features(self):
        return self.text_hidden * self.text_layers


SHIPPED = Sizes()
SMOKE = Sizes(vae_channels=(8, 8, 16, 16), text_hidden=32, text_layers=2, text_heads=2, text_kv_heads=1, text_head=16, text_inner=32,
              cond=(64, 1, 2, 64), uncond=(64, 1, 1, 64), adaln=16)


def linear(inputs, outputs, bias=False, std=None):
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.normal_(layer.weight, std=inputs**-0.5 if std is None else std)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.eps)
        return (y * self.weight.float()).to(x.dtype)


def rotate(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def rope_table(positions, head, theta, sections=None):
    """cos and sin [n, head] in float32, computed from float32 frequencies: image positions are large, bfloat16 ones would be tens of radians off.

    positions [n], or [n, 3] with frequency k turning with axis 1 or 2 where k mod 3 is that axis and k < 3 · sections[axis], else with axis 0.
    """
    frequency = 1.0 / theta ** (torch.arange(0, head, 2, dtype=torch.float32) / head)  # the reference's roundings: one ulp is 0.004 rad at 65536
    if sections is None:
        angles = positions.float()[:, None] * frequency
    else:
        axis = torch.zeros(head // 2, dtype=torch.long)
        for k in (1, 2):
            axis[k : 3 * sections[k] : 3] = k
        angles = positions.float()[:, axis] * frequency
    return torch.cat((angles, angles), -1).cos(), torch.cat((angles, angles), -1).sin()


# ---------------------------------------------------------------- denoisers
@dataclasses.dataclass(frozen=True)
class Part:
    """Samples of one canvas in a batch: [image tokens][text][padding] each. Positions carry the meaning, so the order in memory is free."""

    canvas: tuple
    count: int
    text: int  # text tokens with padding; 0 for the unconditional denoiser

    @property
    def grid(self):
        return self.canvas[1] // PIXELS_PER_TOKEN, self.canvas[0] // PIXELS_PER_TOKEN

    @property
    def image(self):
        return self.grid[0] * self.grid[1]

    @property
    def length(self):
        return self.image + self.text


class Plan:
    """How a batch lies in memory: all samples end to end as rows; neighbours of equal length form a segment."""

    def __init__(self, parts, head, sizes, device):
        self.parts, self.count = parts, sum(part.count for part in parts)
        self.segments = []
        for part in parts:
            if self.segments and self.segments[-1][1] == part.length:
                self.segments[-1] = (self.segments[-1][0] + part.count, part.length)
            else:
                self.segments.append((part.count, part.length))
        self.segments = tuple(self.segments)
        self.longest = max(part.length for part in parts)
        self.image = torch.cat([torch.full((part.count,), part.image) for part in parts]).to(device)
        starts = torch.cat([torch.full((part.count,), part.length) for part in parts]).cumsum(0)
        self.starts = torch.cat([torch.zeros(1, dtype=torch.long), starts]).to(device=device, dtype=torch.int32)
        tables = []
        for part in parts:
            rows, columns = torch.meshgrid(torch.arange(part.grid[0]), torch.arange(part.grid[1]), indexing="ij")
            image = torch.stack([torch.zeros_like(rows), rows, columns], -1).reshape(-1, 3) + IMAGE_POSITION
            positions = torch.cat([image, torch.arange(part.text)[:, None].expand(-1, 3)])
            tables.append([table.repeat(part.count, 1) for table in rope_table(positions, head, sizes.theta, sizes.sections)])
        self.cos, self.sin = (torch.cat([table[k] for table in tables]).to(device)[:, None] for k in (0, 1))

    def boundaries(self, text_lengths):
        """Prefix sums for variable-length attention, padding as sequences of its own; and per sample the rows that count."""
        used = self.image if text_lengths is None else self.image + text_lengths
        if text_lengths is None:
            return self.starts, used
        return torch.cat([torch.stack([self.starts[:-1], self.starts[:-1] + used.int()], 1).flatten(), self.starts[-1:]]), used

    def image_rows(self, rows):
        """[tokens, width] to a list of [count, image tokens, width], one a part."""
        pieces, begin = [], 0
        for part in self.parts:
            end = begin + part.count * part.length
            pieces.append(rows[begin:end].view(part.count, part.length, -1)[:, : part.image])
            begin = end
        return pieces


def spread(values, segments):
    """[samples, width] to one row a token."""
    pieces, begin = [], 0
    for count, length in segments:
        pieces.append(values[begin : begin + count, None].expand(count, length, values.shape[-1]).reshape(count * length, -1))
        begin += count
    return torch.cat(pieces)


class Attention(nn.Module):
    """Inside each span of packed rows. `spans` is (boundaries, longest) for the variable-length kernel, or a PaddedSpans."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.head = heads, width // heads
        self.to_q, self.to_k, self.to_v = linear(width, width), linear(width, width), linear(width, width)
        self.norm_q, self.norm_k = RMSNorm(self.head, 1e-5), RMSNorm(self.head, 1e-5)
        self.to_out = nn.ModuleList([linear(width, width)])

    def forward(self, x, cos, sin, spans):
        q, k, v = (projection(x).view(-1, self.heads, self.head) for projection in (self.to_q, self.to_k, self.to_v))
        q, k = rotate(self.norm_q(q), cos, sin), rotate(self.norm_k(k), cos, sin)
        return self.to_out[0](attend(q, k, v, spans).reshape(x.shape))


def attend(q, k, v, spans):
    if isinstance(spans, tuple):
        boundaries, longest = spans
        return varlen_attn(q, k, v, boundaries, boundaries, longest, longest)
    return spans(q, k, v)


class PaddedSpans:
    """Plain attention under a mask, segment by segment; on any device."""

    def __init__(self, segments, used):
        self.pieces, begin = [], 0
        for count, length in segments:
            mask = torch.arange(length, device=used.device)[None] < used[begin : begin + count, None]
            self.pieces.append((count, length, mask[:, None, None, :]))
            begin += count

    def __call__(self, q, k, v):
        results, begin = [], 0
        for count, length, mask in self.pieces:
            end = begin + count * length
            heads = (rows[begin:end].view(count, length, *q.shape[1:]).transpose(1, 2) for rows in (q, k, v))
            results.append(F.scaled_dot_product_attention(*heads, attn_mask=mask).transpose(1, 2).reshape(count * length, *q.shape[1:]))
            begin = end
        return torch.cat(results)


def packed_attention_works(device):
    """Compares both ways on one small case; the kernel is new and its interface may move."""
    if device.type != "cuda" or varlen_attn is None:
        return False
    try:
        q, k, v = (torch.randn(96, 2, 64, device=device, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
        packed = attend(q, k, v, (torch.tensor([0, 40, 96], device=device, dtype=torch.int32), 56))
        packed.float().square().sum().backward()
        padded = torch.cat([PaddedSpans([(1, end - begin)], torch.tensor([end - begin], device=device))(q[begin:end], k[begin:end], v[begin:end])
                            for begin, end in ((0, 40), (40, 96))])
        return bool((packed - padded).abs().max() < 0.05 and torch.isfinite(q.grad).all())
    except Exception as error:  # whatever the kernel's trouble is, the plain way works
        print(f"variable-length attention not used: {error!r}"[:300], flush=True)
        return False


class FeedForward(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.w1, self.w2, self.w3 = linear(width, inner), linear(inner, width), linear(width, inner)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, width, heads, inner, adaln):
        super().__init__()
        self.attention, self.feed_forward = Attention(width, heads), FeedForward(width, inner)
        self.attention_norm1, self.attention_norm2 = RMSNorm(width, 1e-5), RMSNorm(width, 1e-5)
        self.ffn_norm1, self.ffn_norm2 = RMSNorm(width, 1e-5), RMSNorm(width, 1e-5)
        self.adaln_modulation = linear(adaln, 4 * width, bias=True, std=0.0)
        with torch.no_grad():  # gates begin slightly open
            self.adaln_modulation.bias[width : 2 * width] = self.adaln_modulation.bias[3 * width :] = 0.3

    def forward(self, x, cos, sin, conditioning, segments, spans):
        scale1, gate1, scale2, gate2 = spread(self.adaln_modulation(conditioning), segments).chunk(4, -1)
        attended = self.attention(self.attention_norm1(x) * (1 + scale1), cos, sin, spans)
        x = x + (torch.tanh(gate1) * self.attention_norm2(attended)).to(x.dtype)
        return x + (torch.tanh(gate2) * self.ffn_norm2(self.feed_forward(self.ffn_norm1(x) * (1 + scale2)))).to(x.dtype)


class TimeEmbedding(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mlp_in, self.mlp_out = linear(width, width, bias=True), linear(width, width, bias=True)
        half = width // 2
        self.register_buffer("frequency", torch.exp(torch.arange(half, dtype=torch.float32) * (-math.log(1e4) / (half - 1))), persistent=False)

    def forward(self, t):
        angles = 1e4 * t.float()[:, None] * self.frequency
        return self.mlp_out(F.silu(self.mlp_in(torch.cat((angles.sin(), angles.cos()), -1))))


class FinalLayer(nn.Module):
    def __init__(self, width, outputs, adaln):
        super().__init__()
        self.linear, self.adaln_modulation = linear(width, outputs, bias=True, std=0.0), linear(adaln, width, bias=True, std=0.0)

    def forward(self, x, conditioning):
        scale = self.adaln_modulation(F.silu(conditioning))[:, None]
        return self.linear(F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale))


class Denoiser(nn.Module):
    """velocity = data - noise, of latents in token layout."""

    def __init__(self, shape, sizes):
        super().__init__()
        width, heads, layers, inner = shape
        self.sizes, self.head, self.packed = sizes, width // heads, False
        self.input_proj = linear(sizes.token_channels, width, bias=True)
        self.llm_cond_norm, self.llm_cond_proj = RMSNorm(sizes.features, 1e-6), linear(sizes.features, width, bias=True)
        self.t_embedding, self.adaln_proj = TimeEmbedding(width), linear(width, sizes.adaln, bias=True)
        self.embed_image_indicator = nn.Embedding(2, width)
        nn.init.normal_(self.embed_image_indicator.weight, std=0.02)
        self.layers = nn.ModuleList([Block(width, heads, inner, sizes.adaln) for _ in range(layers)])
        self.final_layer = FinalLayer(width, sizes.token_channels, sizes.adaln)
        self.plans = {}

    def plan(self, parts, device):
        key = (tuple(parts), str(device))
        if key not in self.plans:
            self.plans[key] = Plan(parts, self.head, self.sizes, device)
        return self.plans[key]

    def forward(self, parts, latents, t, features=None, text_lengths=None):
        """parts and latents: one [count, image tokens, channels] a Part; t [samples]; features [samples, tokens, width], as long as the longest text.

        Returns velocities as a list like latents.
        """
        plan = self.plan(parts, t.device)
        conditioning = F.silu(self.adaln_proj(self.t_embedding(t)))
        if features is not None:
            keep = (torch.arange(features.shape[1], device=t.device)[None] < text_lengths[:, None])[..., None]
            text = self.llm_cond_proj(self.llm_cond_norm(features * keep.to(features.dtype))) * keep + self.embed_image_indicator.weight[0]
        rows, begin = [], 0
        for part, z in zip(parts, latents):
            image = self.input_proj(z) + self.embed_image_indicator.weight[1]
            if part.text:
                image = torch.cat([image, text[begin : begin + part.count, : part.text].to(image.dtype)], 1)
            rows.append(image.reshape(part.count * part.length, -1))
            begin += part.count
        kind = torch.get_autocast_dtype(t.device.type) if torch.is_autocast_enabled(t.device.type) else rows[0].dtype
        h = torch.cat(rows).to(kind)
        boundaries, used = plan.boundaries(text_lengths)
        spans = (boundaries, plan.longest) if self.packed else PaddedSpans(plan.segments, used)
        cos, sin = plan.cos.to(kind), plan.sin.to(kind)
        for layer in self.layers:
            h = layer(h, cos, sin, conditioning, plan.segments, spans)
        velocities, begin = [], 0
        for part, image in zip(parts, plan.image_rows(h)):
            velocities.append(self.final_layer(image, conditioning[begin : begin + part.count]))
            begin += part.count
        return velocities


# ---------------------------------------------------------------- text encoder
class TextAttention(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.heads, self.kv_heads, self.head = sizes.text_heads, sizes.text_kv_heads, sizes.text_head
        self.q_proj = linear(sizes.text_hidden, self.heads * self.head)
        self.k_proj, self.v_proj = (linear(sizes.text_hidden, self.kv_heads * self.head) for _ in range(2))
        self.o_proj = linear(self.heads * self.head, sizes.text_hidden)
        self.q_norm, self.k_norm = RMSNorm(self.head, 1e-6), RMSNorm(self.head, 1e-6)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        q, k, v = (projection(x).view(batch, length, -1, self.head).transpose(1, 2) for projection in (self.q_proj, self.k_proj, self.v_proj))
        q, k = rotate(self.q_norm(q), cos, sin), rotate(self.k_norm(k), cos, sin)
        k, v = (tensor.repeat_interleave(self.heads // self.kv_heads, 1) for tensor in (k, v))
        return self.o_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, -1))


class TextMLP(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.gate_proj, self.up_proj = linear(sizes.text_hidden, sizes.text_inner), linear(sizes.text_hidden, sizes.text_inner)
        self.down_proj = linear(sizes.text_inner, sizes.text_hidden)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class TextLayer(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.self_attn, self.mlp = TextAttention(sizes), TextMLP(sizes)
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(sizes.text_hidden, 1e-6), RMSNorm(sizes.text_hidden, 1e-6)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin).to(x.dtype)
        return x + self.mlp(self.post_attention_layernorm(x)).to(x.dtype)


class TextEncoder(nn.Module):
    """ids [batch, length], padded on the right (attention is causal, so padding reaches no real token) to features of all layers, layer index innermost."""

    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        self.embed_tokens = nn.Embedding(sizes.vocabulary, sizes.text_hidden)
        nn.init.normal_(self.embed_tokens.weight, std=0.5)
        self.layers = nn.ModuleList([TextLayer(sizes) for _ in range(sizes.text_layers)])
        self.norm = RMSNorm(sizes.text_hidden, 1e-6)  # part of the file format; the pipeline taps the layers before it
        self.tables = {}

    def forward(self, ids):
        key = (ids.shape[1], str(ids.device))
        if key not in self.tables:
            self.tables[key] = [table.to(ids.device) for table in rope_table(torch.arange(ids.shape[1]), self.sizes.text_head, self.sizes.text_theta)]
        x = self.embed_tokens(ids)
        if torch.is_autocast_enabled(ids.device.type):
            x = x.to(torch.get_autocast_dtype(ids.device.type))
        cos, sin = (table.to(x.dtype) for table in self.tables[key])
        taps = []
        for layer in self.layers:
            x = layer(x, cos, sin)
            taps.append(x)
        return torch.stack(taps, -1).flatten(2)


# ---------------------------------------------------------------- VAE
class GroupNorm(nn.GroupNorm):
    """In the type of its input, also under autocast (statistics are float32 inside)."""

    def __init__(self, groups, channels):
        super().__init__(groups, channels, 1e-6)

    def forward(self, x):
        with torch.autocast(x.device.type, enabled=False):
            return F.group_norm(x, self.num_groups, self.weight.to(x.dtype), self.bias.to(x.dtype), self.eps)


class Residual(nn.Module):
    def __init__(self, inputs, outputs, groups):
        super().__init__()
        self.norm1, self.norm2 = GroupNorm(groups, inputs), GroupNorm(groups, outputs)
        self.conv1, self.conv2 = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.conv_shortcut = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else None

    def forward(self, x):
        h = self.conv2(F.silu(self.norm2(self.conv1(F.silu(self.norm1(x))))))
        return h + (x if self.conv_shortcut is None else self.conv_shortcut(x))


class SpatialAttention(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.group_norm = GroupNorm(groups, channels)
        self.to_q, self.to_k, self.to_v = (nn.Linear(channels, channels) for _ in range(3))
        self.to_out = nn.ModuleList([nn.Linear(channels, channels)])

    def forward(self, x):
        rows = self.group_norm(x).flatten(2).transpose(1, 2)
        q, k, v = (projection(rows)[:, None] for projection in (self.to_q, self.to_k, self.to_v))
        return x + self.to_out[0](F.scaled_dot_product_attention(q, k, v)[:, 0]).transpose(1, 2).reshape(x.shape)


class Resample(nn.Module):
    def __init__(self, channels, down):
        super().__init__()
        self.down, self.conv = down, nn.Conv2d(channels, channels, 3, stride=2 if down else 1, padding=0 if down else 1)

    def forward(self, x):
        return self.conv(F.pad(x, (0, 1, 0, 1)) if self.down else F.interpolate(x, scale_factor=2.0, mode="nearest"))


class Level(nn.Module):
    def __init__(self, inputs, outputs, layers, groups, resample):
        super().__init__()
        self.resnets = nn.ModuleList([Residual(inputs if k == 0 else outputs, outputs, groups) for k in range(layers)])
        self.downsamplers = nn.ModuleList([Resample(outputs, True)]) if resample == "down" else None
        self.upsamplers = nn.ModuleList([Resample(outputs, False)]) if resample == "up" else None

    def forward(self, x):
        for resnet in self.resnets:
            x = resnet(x)
        sampler = self.downsamplers or self.upsamplers
        return sampler[0](x) if sampler else x


class Middle(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.resnets = nn.ModuleList([Residual(channels, channels, groups) for _ in range(2)])
        self.attentions = nn.ModuleList([SpatialAttention(channels, groups)])

    def forward(self, x):
        return self.resnets[1](self.attentions[0](self.resnets[0](x)))


def levels(channels, layers, groups, resample):
    count = len(channels)
    return nn.ModuleList([Level(channels[max(k - 1, 0)], channels[k], layers, groups, resample if k < count - 1 else "") for k in range(count)])


class Encoder(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        channels = sizes.vae_channels
        self.conv_in = nn.Conv2d(3, channels[0], 3, padding=1)
        self.down_blocks = levels(channels, sizes.vae_layers, sizes.groups, "down")
        self.mid_block = Middle(channels[-1], sizes.groups)
        self.conv_norm_out, self.conv_out = GroupNorm(sizes.groups, channels[-1]), nn.Conv2d(channels[-1], 2 * sizes.latent, 3, padding=1)

    def forward(self, x):
        x = self.conv_in(x)
        for block in self.down_blocks:
            x = block(x)
        return self.conv_out(F.silu(self.conv_norm_out(self.mid_block(x))))


class Decoder(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        channels = tuple(reversed(sizes.vae_channels))
        self.conv_in, self.mid_block = nn.Conv2d(sizes.latent, channels[0], 3, padding=1), Middle(channels[0], sizes.groups)
        self.up_blocks = levels(channels, sizes.vae_layers + 1, sizes.groups, "up")
        self.conv_norm_out, self.conv_out = GroupNorm(sizes.groups, channels[-1]), nn.Conv2d(channels[-1], 3, 3, padding=1)

    def forward(self, z):
        x = self.mid_block(self.conv_in(z))
        for block in self.up_blocks:
            x = block(x)
        return self.conv_out(F.silu(self.conv_norm_out(x)))


class VAE(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.encoder, self.decoder = Encoder(sizes), Decoder(sizes)
        self.quant_conv, self.post_quant_conv = nn.Conv2d(2 * sizes.latent, 2 * sizes.latent, 1), nn.Conv2d(sizes.latent, sizes.latent, 1)
        self.bn = nn.BatchNorm2d(sizes.token_channels, eps=1e-4, momentum=0.1, affine=False)

    def encode(self, images):
        """images in -1..1 to mean and log variance, float32."""
        mean, log_variance = self.quant_conv(self.encoder(images)).float().chunk(2, 1)
        return mean, log_variance.clamp(-30, 20)

    def decode(self, z):
        return self.decoder(self.post_quant_conv(z))

    def statistics(self):
        return self.bn.running_mean.float(), torch.sqrt(self.bn.running_var.float() + self.bn.eps)

    def normalised(self, z):
        mean, std = self.statistics()
        return (to_tokens(z) - mean) / std

    def decode_tokens(self, tokens, grid):
        mean, std = self.statistics()
        return self.decode(from_tokens(tokens.float() * std + mean, grid))


def to_tokens(z):
    """[n, c, h, w] to [n, h/2 · w/2, 4c], channels in the order (row in patch, column in patch, channel)."""
    n, c, h, w = z.shape
    return z.reshape(n, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 3, 5, 1).reshape(n, h * w // 4, 4 * c)


def from_tokens(tokens, grid):
    n, _, width = tokens.shape
    return tokens.view(n, *grid, 2, 2, width // 4).permute(0, 5, 1, 3, 2, 4).reshape(n, width // 4, 2 * grid[0], 2 * grid[1])


def build(sizes):
    """The four networks, by the folder that each is exported to."""
    return {"vae": VAE(sizes), "text_encoder": TextEncoder(sizes), "transformer": Denoiser(sizes.cond, sizes),
            "unconditional_transformer": Denoiser(sizes.uncond, sizes)}
