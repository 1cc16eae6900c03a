"""One training step, recorded as a CUDA graph where that works; a wall-clock budget; a log."""
import json
import time

import torch


class Log:
    def __init__(self, path, began):
        self.file, self.began = open(path, "a", encoding="utf-8"), began

    def __call__(self, *words):
        line = f"[{time.time() - self.began:6.1f} s] " + " ".join(word if isinstance(word, str) else json.dumps(word) for word in words)
        print(line, flush=True)
        self.file.write(line + "\n")
        self.file.flush()


class Budget:
    """Share 0..1 of the time from its making to `end` (as time.time() counts)."""

    def __init__(self, end):
        self.begin, self.end = time.time(), end

    def used(self):
        return min(1.0, (time.time() - self.begin) / max(self.end - self.begin, 1e-3))


class Recorded:
    """step() runs eagerly a few times on a side stream, then as a recording. It must not wait for the device, and must set gradients to None first."""

    def __init__(self, step, device, log, warm_ups=4):
        self.step, self.device, self.log, self.left, self.graph = step, device, log, warm_ups, None
        self.is_recorded = device.type == "cuda"

    def __call__(self):
        if self.graph is not None:
            self.graph.replay()
        elif not self.is_recorded:
            self.step()
        elif self.left:
            self.left -= 1
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self.step()
            torch.cuda.current_stream().wait_stream(side)
        else:
            self.record()

    def record(self):
        try:
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.step()
            graph.replay()
            torch.cuda.synchronize()
            self.graph = graph
            self.log("step recorded")
        except Exception as error:  # slower without, but right
            self.is_recorded = False
            self.log(f"step not recorded: {error!r}"[:400])
            torch.cuda.synchronize()
            self.step()


def synchronise(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


class Progress:
    """Sums of a few losses on the device, printed every so many steps."""

    def __init__(self, names, every, device, log):
        self.names, self.every, self.device, self.log = names, every, device, log
        self.sums, self.count, self.begin = torch.zeros(len(names), device=device), 0, time.time()

    def add(self, values):
        self.sums.add_(torch.stack([value.detach().float() for value in values]))

    def tick(self, step, used):
        """Also keeps the host from running far ahead of the device, or the budget would mean nothing."""
        self.count += 1
        if step % 10 == 0:
            synchronise(self.device)
        if self.count == self.every:
            means = (self.sums / self.count).tolist()
            rate = self.count / (time.time() - self.begin)
            self.log(f"step {step}, {used:.0%} of the time, {rate:.1f} steps/s: " + ", ".join(f"{n} {v:.5f}" for n, v in zip(self.names, means)))
            self.sums.zero_()
            self.count, self.begin = 0, time.time()
