#!/usr/bin/env python3
"""torch's attention on the shapes of attention_bench: cuDNN and FlashAttention, bf16, random data, single calls between CUDA events.

    python3 bench/peers/attention_torch.py [--rounds 20] > attention_torch.jsonl
"""
import argparse
import json

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

SHAPES = [(rows, 18, 18, 256, False) for rows in (2304, 4096, 4352, 6144, 16384)] + [(512, 32, 8, 128, True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    for rows, heads, kv_heads, head_dim, causal in SHAPES:
        copies = max(2, (120 << 20) // (rows * (heads + 2 * kv_heads) * head_dim * 2) + 1)
        sets = [[torch.randn(1, h, rows, head_dim, device="cuda", dtype=torch.bfloat16) for h in (heads, kv_heads, kv_heads)] for _ in range(copies)]
        for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
            times = []
            try:
                with sdpa_kernel(backend):
                    for i in range(rounds + 5):
                        q, k, v = sets[i % copies]
                        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                        begin.record()
                        F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != kv_heads)
                        end.record()
                        end.synchronize()
                        if i >= 5:
                            times.append(begin.elapsed_time(end))
            except RuntimeError as failure:
                print(json.dumps({"rows": rows, "head_dim": head_dim, "body": name, "error": str(failure).splitlines()[0]}))
                continue
            times.sort()
            flop = 4 * rows * rows * heads * head_dim * (0.5 if causal else 1)
            print(json.dumps({"rows": rows, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "causal": causal, "body": name,
                              "ms": round(times[len(times) // 2], 4), "tflops": round(flop / times[len(times) // 2] / 1e9, 1)}), flush=True)


if __name__ == "__main__":
    main()
