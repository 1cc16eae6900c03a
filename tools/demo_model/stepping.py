"""One training step, recorded as a CUDA graph where that works; a wall-clock budget; a log."""
import gc
import json
import math
import os
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


CAUTION = int(os.environ.get("OCTAVO_DEMO_CAUTION", "0"))  # run.sh raises it when a stage fails early: 1 compiles nothing, 2 records nothing either


class Recorded:
    """step() runs eagerly a few times on a side stream, then as a recording. It must not wait for the device, and must set gradients to None first."""

    def __init__(self, step, device, log, name, warm_ups=4):
        self.step, self.device, self.log, self.name, self.left, self.graph = step, device, log, name, warm_ups, None
        self.is_recorded = device.type == "cuda" and CAUTION < 2
        self.side = torch.cuda.Stream() if self.is_recorded else None  # one for all warm-ups: the allocator keeps blocks by stream

    def __call__(self):
        if self.graph is not None:
            self.graph.replay()
        elif not self.is_recorded:
            self.step()
        elif self.left:
            self.left -= 1
            began = time.time()
            self.side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.side):
                self.step()
            torch.cuda.current_stream().wait_stream(self.side)
            torch.cuda.synchronize()
            self.log(f"{self.name}: step before recording took {time.time() - began:.3f} s")
        else:
            self.record()

    def record(self):
        """A failed recording leaves random numbers and the allocator in the middle of it, so the process cannot go on: run.sh starts the stage again
        with more caution."""
        began = time.time()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        gc.collect()
        gc.disable()  # a collection that frees a graph would break the recording
        try:
            with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):  # other threads (worker pools) may do as they like
                self.step()
            self.graph.replay()  # recording runs nothing
            torch.cuda.synchronize()
        except Exception as error:
            self.log(f"{self.name}: STEP NOT RECORDED: {error!r}"[:2000])
            raise
        finally:
            gc.enable()
        self.log(f"{self.name}: recorded in {time.time() - began:.1f} s, {torch.cuda.memory_reserved() / 2**30:.1f} GiB reserved on the device")


def synchronise(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


class Rescue:
    """A copy of everything that training changes, for when a loss stops being a number."""

    def __init__(self, tensors):
        self.tensors = [tensor.detach() for tensor in tensors]
        self.kept = [tensor.clone() for tensor in self.tensors]

    @torch.no_grad()
    def keep(self):
        """False, and nothing kept, where something is not finite."""
        if not bool(torch.stack(torch._foreach_norm(self.tensors)).isfinite().all()):
            return False
        torch._foreach_copy_(self.kept, self.tensors)
        return True

    @torch.no_grad()
    def restore(self):
        torch._foreach_copy_(self.tensors, self.kept)


class Progress:
    """Sums of a few losses on the device, printed every so many steps, and early in the stage more often. At every line what training changes is kept; where
    a loss is no number, the last copy comes back and the rates fall to a half (`share`)."""

    EARLY = (1, 10, 50, 100)
    MOST_RESCUES = 6

    def __init__(self, names, every, device, log, rescue):
        self.names, self.every, self.device, self.log, self.rescue = names, every, device, log, rescue
        self.sums, self.count, self.begin = torch.zeros(len(names), device=device), 0, time.time()
        self.ticks, self.rescues = 0, 0

    @property
    def share(self):
        return 0.5**self.rescues

    def add(self, values):
        self.sums.add_(torch.stack([value.detach().float() for value in values]))

    def tick(self, step, used):
        """True where a line was printed and all is well. Also keeps the host from running far ahead of the device, or the budget would mean nothing."""
        self.count += 1
        self.ticks += 1
        if step % 10 == 0:
            synchronise(self.device)
        if self.count < self.every and self.ticks not in self.EARLY:
            return False
        means = (self.sums / self.count).tolist()
        rate = self.count / (time.time() - self.begin)
        self.log(f"step {step}, {used:.0%} of the time, {rate:.1f} steps/s: " + ", ".join(f"{n} {v:.5f}" for n, v in zip(self.names, means)))
        is_well = all(map(math.isfinite, means)) and self.rescue.keep()
        if not is_well:
            self.rescues += 1
            if self.rescues > self.MOST_RESCUES:
                raise FloatingPointError(f"step {step}: losses or weights are not finite for time number {self.rescues}; the last archives hold what was right")
            self.log(f"NOT FINITE at step {step}: back to the last copy, rates times {self.share}")
            self.rescue.restore()
        self.sums.zero_()
        self.count, self.begin = 0, time.time()
        return is_well
