#!/usr/bin/env python3
"""Prints the short tables of JSON records that octavo bench and octavo tune wrote:   scripts/show_bench.py FILE…"""
import json
import sys


def producers(report):
    print(f"{'op':<22}{'K':>7}{'us':>9}{'GB/s':>8}{'of copy':>9}{'ConvRot 256':>13}")
    rows = report["rows"]
    for copy, plain, rotated in zip(rows[0::3], rows[1::3], rows[2::3]):
        print(f"{plain['op']:<22}{plain['k']:>7}{plain['us']:>9.1f}{plain['gb_per_s']:>8.0f}{100 * plain['of_copy']:>8.1f}%{100 * rotated['rotation_cost']:>+12.1f}%"
              f"   copy {copy['us']:.1f} us, {copy['gb_per_s']:.0f} GB/s")


def linears(report):
    for row in report["rows"]:
        chosen = row["chosen"]
        peers = ", ".join(f"{peer['name'].split(' (')[0].replace('cublaslt ', '')} {peer['times_chosen']:.2f}x" for peer in row["peers"])
        best = min([chosen] + row["candidates"], key=lambda entry: entry["us"])
        lost = "" if best is chosen else f"  LOST to {best['name']} {100 * (best['times_chosen'] - 1):+.1f} %"
        equal = {True: "bits equal", False: "BITS DIFFER", None: ""}[row.get("int8_peer_has_equal_bits")]
        print(f"{row['shape']:<24}{chosen['name']:<34}{chosen['us']:>9.1f} us{chosen['tops']:>7.0f} TOPS{chosen['percent_of_limit']:>6.1f} %  {peers}  {equal}{lost}")
    print(f"mean {report['mean_tops']:.0f} TOPS, least {report['least_tops']:.0f}; {report['state_before']} -> {report['state_after']}")
    for name, ratio in report["ratios"].items():
        print(f"  {ratio['geometric_mean']:.3f} x {name} (least {ratio['least']:.3f})")
    if "peers_missing" in report:
        print("no peers:", report["peers_missing"])


def tuning(report):
    for row in report["shapes"]:
        regret = f"regret {100 * row['regret']:.2f} % (best {row['best']})" if "regret" in row else ""
        print(f"{row['shape']:<24}{row['winner']:<34} raster {row['raster_group']:<4}{row['us']:>9.1f} us  {regret}")
    print(f"{report['measured']} shapes measured in {report['seconds']:.1f} s; {report['state']}")
    if "regret_mean" in report:
        print(f"regret: mean {100 * report['regret_mean']:.2f} %, worst {100 * report['regret_worst']:.2f} %")


def main():
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        print(f"--- {path}: {report['gpu']}")
        if "shapes" in report:
            tuning(report)
        elif "mean_tops" in report:
            linears(report)
        else:
            producers(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
