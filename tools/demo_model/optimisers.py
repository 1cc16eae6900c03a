"""Optimisers whose every number lives on the device, so that a whole training step can be recorded in a CUDA graph. Learning rates are 0-d tensors."""
import torch


class Adam:
    def __init__(self, parameters, betas=(0.9, 0.98), epsilon=1e-8):
        self.parameters, self.betas, self.epsilon = list(parameters), betas, epsilon
        self.first = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.second = [torch.zeros_like(parameter) for parameter in self.parameters]

    def correction(self, step):
        """The factor on the learning rate that makes the moments of the first steps unbiased; host arithmetic, outside the recorded step."""
        return (1 - self.betas[1] ** (step + 1)) ** 0.5 / (1 - self.betas[0] ** (step + 1))

    @torch.no_grad()
    def step(self, rate):
        gradients = [parameter.grad for parameter in self.parameters]
        torch._foreach_lerp_(self.first, gradients, 1 - self.betas[0])
        torch._foreach_mul_(self.second, self.betas[1])
        torch._foreach_addcmul_(self.second, gradients, gradients, 1 - self.betas[1])
        size = torch._foreach_sqrt(self.second)
        torch._foreach_add_(size, self.epsilon)
        update = torch._foreach_div(self.first, size)
        torch._foreach_mul_(update, rate)
        torch._foreach_sub_(self.parameters, update)

    def state(self):
        return [self.first, self.second]


def orthogonalised(matrices):
    """Five Newton-Schulz iterations bring the singular values of [n, rows, columns] near 1 (Muon's quintic)."""
    x = matrices.bfloat16() if matrices.is_cuda else matrices.float()
    is_tall = x.shape[-2] > x.shape[-1]
    x = x.mT if is_tall else x
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return (x.mT if is_tall else x).float().contiguous()  # laid out like the parameters, or the subtraction takes the slow way


class Muon:
    """Momentum, orthogonalised; matrices of one shape go through together. An update has RMS 0.2, so rates are like Adam's."""

    def __init__(self, parameters, momentum=0.95, decay=0.1):
        self.momentum, self.decay, self.groups = momentum, decay, {}
        for parameter in parameters:
            self.groups.setdefault(tuple(parameter.shape), []).append(parameter)
        self.buffers = {shape: torch.zeros(len(group), *shape, device=group[0].device) for shape, group in self.groups.items()}

    @torch.no_grad()
    def step(self, rate):
        for shape, group in self.groups.items():
            gradient, buffer = torch.stack([parameter.grad for parameter in group]), self.buffers[shape]
            buffer.lerp_(gradient, 1 - self.momentum)
            update = orthogonalised(gradient.lerp_(buffer, self.momentum)) * (rate * (0.2 * max(shape) ** 0.5))
            torch._foreach_mul_(group, 1 - rate * self.decay)
            torch._foreach_sub_(group, list(update.unbind(0)))

    def state(self):
        return [list(self.buffers.values())]


class Average:
    """Exponential moving average of parameters. The decay is short at first, so that the start is forgotten."""

    def __init__(self, parameters, decay, device):
        self.parameters, self.decay = list(parameters), decay
        self.values = [parameter.detach().clone() for parameter in self.parameters]
        self.weight = torch.zeros((), device=device)

    def prepare(self, step):
        self.weight.fill_(1 - min(self.decay, (1 + step) / (10 + step)))

    @torch.no_grad()
    def update(self):
        difference = torch._foreach_sub([parameter.detach() for parameter in self.parameters], self.values)
        torch._foreach_mul_(difference, self.weight)
        torch._foreach_add_(self.values, difference)

    @torch.no_grad()
    def exchange(self):
        """Parameters and averages change places."""
        for parameter, value in zip(self.parameters, self.values):
            kept = parameter.detach().clone()
            parameter.copy_(value)
            value.copy_(kept)


def split(networks):
    """(matrices of blocks for Muon, the rest for Adam)."""
    matrices, rest = [], []
    for network in networks:
        for name, parameter in network.named_parameters():
            if parameter.requires_grad:
                (matrices if parameter.ndim == 2 and "layers." in name and "adaln" not in name else rest).append(parameter)
    return matrices, rest
