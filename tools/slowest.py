#!/usr/bin/env python3
"""Prints the ten steps of a build folder that took longest, from ninja's own log; a file over a minute wants splitting."""
import pathlib
import sys


def main():
    folder = pathlib.Path(sys.argv[1])
    log = folder / ".ninja_log"
    if not log.exists():
        print(f"slowest: no build in {folder}")
        return 0
    seconds = {}
    for line in log.read_text().splitlines()[1:]:
        start, end, _, output, *_ = line.split("\t")
        seconds[output] = (int(end) - int(start)) / 1000
    print(f"{folder}: {sum(seconds.values()):.0f} s of steps (wall per step; two run at once on two cores)")
    for output, time in sorted(seconds.items(), key=lambda item: -item[1])[:10]:
        print(f"  {time:7.1f} s  {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
