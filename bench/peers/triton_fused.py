"""The fused INT8 linear in Triton as a peer: row and column scale and bias in the epilogue, bf16 out, tiles picked by timing.

    python3 bench/peers/triton_fused.py [--json FILE] [--rounds 20]

The 16 linear shapes of Ideogram 4, int8 codes of Gaussian rows, buffers that rotate through more than the L2, CUDA graphs of several launches,
median of `rounds` replays; torch's FP8 row-wise product (fast accumulation) and bf16 matmul are timed in turn with it. Prints one line per shape.
"""
import argparse
import json

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"TILE_M": m, "TILE_N": n, "TILE_K": k, "BAND": 8}, num_warps=warps, num_stages=stages)
           for m, n, k, warps, stages in [(128, 128, 64, 4, 4), (128, 128, 128, 4, 3), (128, 128, 128, 8, 4), (128, 256, 64, 8, 3), (128, 256, 128, 8, 3),
                                          (256, 128, 64, 8, 3), (256, 128, 128, 8, 3), (64, 256, 128, 4, 3)]]


@triton.autotune(configs=CONFIGS, key=["m", "n", "k"])
@triton.jit
def fused_linear(x, w, y, x_scale, w_scale, bias, m, n, k, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, BAND: tl.constexpr):
    tile = tl.program_id(0)
    tiles_m = tl.cdiv(m, TILE_M)
    tiles_n = tl.cdiv(n, TILE_N)
    first = tile // (BAND * tiles_n) * BAND
    rows_in_band = min(tiles_m - first, BAND)
    tile_m = first + tile % (BAND * tiles_n) % rows_in_band
    tile_n = tile % (BAND * tiles_n) // rows_in_band
    rows = tile_m * TILE_M + tl.arange(0, TILE_M)
    columns = tile_n * TILE_N + tl.arange(0, TILE_N)
    inner = tl.arange(0, TILE_K)
    x_at = x + (rows % m)[:, None] * k + inner[None, :]
    w_at = w + (columns % n)[None, :] * k + inner[:, None]
    acc = tl.zeros((TILE_M, TILE_N), dtype=tl.int32)
    for _ in range(0, tl.cdiv(k, TILE_K)):
        acc = tl.dot(tl.load(x_at), tl.load(w_at), acc, out_dtype=tl.int32)
        x_at += TILE_K
        w_at += TILE_K
    v = acc.to(tl.float32) * tl.load(x_scale + rows, mask=rows < m, other=0.0)[:, None] * tl.load(w_scale + columns, mask=columns < n, other=0.0)[None, :]
    v += tl.load(bias + columns, mask=columns < n, other=0.0)[None, :]
    tl.store(y + rows[:, None] * n + columns[None, :], v.to(tl.bfloat16), mask=(rows[:, None] < m) & (columns[None, :] < n))


def gaussian_codes(rows, k):
    x = torch.randn(rows, k, device="cuda")
    return (x * (127 / x.abs().amax(1, keepdim=True))).round().to(torch.int8)


def graph_of(launch, count):
    launch(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(count):
            launch(i)
    return graph


def replay_ms(graph):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--json")
    args.add_argument("--rounds", type=int, default=20)
    args = args.parse_args()
    lines = []
    for m in (2304, 4096, 4352, 16384):
        for layer, n, k in (("qkv", 13824, 4608), ("o", 4608, 4608), ("w1w3", 24576, 4608), ("w2", 4608, 12288)):
            sets = max(2, min(6, int(240e6 / (m * k + n * k + 2 * m * n)) + 1))
            launches = max(2, min(12, round(1560e9 / (2 * m * n * k))))
            xs, ws = [gaussian_codes(m, k) for _ in range(sets)], [gaussian_codes(n, k) for _ in range(sets)]
            ys = [torch.empty(m, n, device="cuda", dtype=torch.bfloat16) for _ in range(sets)]
            x_scale, w_scale, bias = torch.rand(m, device="cuda") * 0.02, torch.rand(n, device="cuda") * 2e-4, torch.zeros(n, device="cuda")
            grid = lambda meta: (triton.cdiv(m, meta["TILE_M"]) * triton.cdiv(n, meta["TILE_N"]),)

            def run_triton(i):
                fused_linear[grid](xs[i % sets], ws[i % sets], ys[i % sets], x_scale, w_scale, bias, m, n, k)

            x8, w8 = [x.float().mul(448 / 127).to(torch.float8_e4m3fn) for x in xs], [w.float().mul(448 / 127).to(torch.float8_e4m3fn) for w in ws]

            def run_fp8(i):
                torch._scaled_mm(x8[i % sets], w8[i % sets].t(), scale_a=x_scale[:, None], scale_b=w_scale[None, :], out_dtype=torch.bfloat16, use_fast_accum=True)

            run_triton(0)
            want = ((torch._int_mm(xs[0], ws[0].t()).float() * x_scale[:, None]) * w_scale).to(torch.bfloat16)
            assert torch.allclose(ys[0].float(), want.float(), rtol=2**-7), "the peer computes something else"
            del want
            graphs = {"triton fused int8": graph_of(run_triton, launches), "torch fp8 row-wise fast": graph_of(run_fp8, launches)}
            times = {name: [] for name in graphs}
            for graph in graphs.values():
                replay_ms(graph)
            for _ in range(args.rounds):
                for name, graph in graphs.items():
                    times[name].append(replay_ms(graph) / launches)
            for name, ms in times.items():
                ms = sorted(ms)[len(ms) // 2]
                line = {"m": m, "layer": layer, "n": n, "k": k, "kernel": name, "us": round(ms * 1e3, 2), "tops": round(2 * m * n * k / ms / 1e9, 1)}
                if name.startswith("triton"):
                    line["config"] = str(fused_linear.best_config)
                lines.append(line)
                print(json.dumps(line), flush=True)
            del xs, ws, ys, x8, w8, graphs
            torch.cuda.empty_cache()
    for name in sorted({line["kernel"] for line in lines}):
        tops = [line["tops"] for line in lines if line["kernel"] == name]
        print(f"{name:28s} mean {sum(tops) / len(tops):7.1f} TOPS")
    if args.json:
        with open(args.json, "w") as out:
            out.writelines(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    main()
