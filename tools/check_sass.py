#!/usr/bin/env python3
"""Checks what the tensor-core kernels were really compiled to, on every architecture of a build, without a GPU.

  tools/check_sass.py OBJECT...  [--write-table] [--predict PROGRAM]

Reads the machine code in the given object files with cuobjdump and nvdisasm (tools/requirements.txt) and fails on
  more than 255 registers, a spill, a load or store of local memory in a main loop,
  a main loop whose mix of instructions is not the one the kernel was designed for (docs/kernels_static.md).
--predict: bench's predict_gpus, which says what share of the peak the tuner's model expects of each kernel.
Exit status: 0 right, 1 wrong, 77 not checked (no disassembler or no CUDA objects; the reason is printed).
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIP = 77
STEP_BYTES = 32
REGISTERS_PER_SM = 65536
# sm -> warps per SM, shared bytes per SM, most per CTA
GPUS = {
    75: (32, 65536, 65536), 80: (64, 167936, 166912), 86: (48, 102400, 101376), 89: (48, 102400, 101376), 90: (64, 233472, 232448), 120: (48, 102400, 101376),
}
MIN_DENSITY = 0.50  # products among the instructions of a large tile's main loop
# Misses it: four warps copy what eight do in the other large tiles.
ALLOWED_DENSITY = {"128x128x64 w2x2 s3": 0.46}
# A name with an architecture stands before the name alone. sm_120's assembler keeps fewer addresses in uniform registers and adds 4 to 6 instructions a slice.
ALLOWED_DENSITY_OF_SM = {("128x128x64 w2x2 s3", 120): 0.45, ("128x256x64 w2x4 s4", 120): 0.48, ("256x128x64 w4x2 s4", 120): 0.48}
ALLOWED_OTHERS_OF_SM = {("128x128x64 w2x2 s3", 120): 51}
ALLOWED_DISTANCE_OF_SM = {("128x64x128 w2x2x2 s4 streamed", 120): 2, ("32x64x256 w1x2x4 s3 streamed", 120): 2, ("48x64x256 w1x2x4 s3 streamed", 120): 2}
ALLOWED_STACK = {"128x128x64 w2x2 s2 registers": 8}  # the one named case: Turing's large tile keeps two registers of its epilogue there
MOST_OTHERS = 48  # instructions of a large tile's slice that are neither products, fragment loads, copies nor barriers
MIN_DISTANCE = 8  # products from one to the next on the same sums
# Small tiles miss it, wherever the assembler puts their few products; what they have must not get less.
ALLOWED_DISTANCE = {
    "16x32x256 w1x1x4 s6 streamed": 4, "16x64x256 w1x2x4 s4 streamed": 4, "32x32x256 w1x1x4 s5 streamed": 2, "32x64x256 w1x2x4 s3 streamed": 3,
    "48x32x256 w1x1x4 s4 streamed": 4, "64x32x256 w1x1x4 s4 streamed": 4, "64x64x128 w2x2 s4": 1, "64x64x256 w1x2x4 s3 streamed": 2,
    "128x64x128 w2x2x2 s4 streamed": 4, "48x64x256 w1x2x4 s3 streamed": 4,
}
RESERVED_SHARED = 1024  # per CTA, by the driver
ROW_TYPES = {"0": "f32", "1": "bf16", "2": "f16"}  # cuda::RowType

Kernel = collections.namedtuple("Kernel", "name arch registers stack shared code tile")  # tile: None for kernels other than gemm_w8a8_mma
Tile = collections.namedtuple("Tile", "m n k warps_m warps_n warps_k stages ctas streamed by_registers")


def tool(name):
    """Path of a CUDA binary tool: from the venv, else from PATH."""
    for folder in sorted((ROOT / ".venv").glob("lib/python3*/site-packages/nvidia/*/bin")):
        if (folder / name).exists():
            return str(folder / name)
    return shutil.which(name)


def run(command):
    # cuobjdump looks for nvdisasm on PATH
    environment = dict(os.environ, PATH=os.pathsep.join([str(pathlib.Path(tool("nvdisasm")).parent), os.environ.get("PATH", "")]))
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def tile_of(mangled):
    """The template arguments of an MmaTile kernel, from its mangled name, or None."""
    found = re.search(r"gemm_w8a8_mma\w*?MmaTileI((?:Li\d+E)+)LNS\w*?9FragmentsE(\d)E\w*?6CopiesE(\d)EE", mangled)
    if not found:
        return None
    numbers = [int(n) for n in re.findall(r"Li(\d+)E", found.group(1))]
    return Tile(*numbers[:8], streamed=found.group(2) == "1", by_registers=found.group(3) == "1")


def name_of(tile):
    text = f"{tile.m}x{tile.n}x{tile.k} w{tile.warps_m}x{tile.warps_n}" + (f"x{tile.warps_k}" if tile.warps_k > 1 else "") + f" s{tile.stages}"
    return text + (" streamed" if tile.streamed and not tile.by_registers else "") + (" registers" if tile.by_registers else "")


def other_name(mangled):
    """The name of a wgmma or an attention kernel, from its mangled name, or None."""
    if found := re.search(r"gemm_w8a8_sm90INS\w*?5ShapeI((?:Li\d+E)+)Lb(\d)ELN\w*?3HotE(\d)E", mangled):
        m, n, stages = re.findall(r"Li(\d+)E", found.group(1))[:3]
        return f"wgmma {m}x{n}x128 s{stages}" + (" ping-pong" if found.group(2) == "1" else "") + ("", " silu_mul", " heads")[int(found.group(3))]
    if found := re.search(r"attention_mma_kernelI\w*?RowTypeE(\d)ELi(\d+)ELb(\d)E", mangled):
        return f"attention {ROW_TYPES[found.group(1)]} head_dim {found.group(2)}" + (" causal" if found.group(3) == "1" else "")
    if found := re.search(r"attention_sm90_kernelI\w*?RowTypeE(\d)E", mangled):
        return f"attention {ROW_TYPES[found.group(1)]} head_dim 256 wgmma"
    return None


def other_size(name):
    """Shared bytes and warps of a CTA of such a kernel; as in the sources' kSharedBytes, which alone decide a launch."""
    if found := re.match(r"wgmma (\d+)x(\d+)x(\d+) s(\d+)", name):
        m, n, k, stages = map(int, found.groups())
        per_column = 8 if name.endswith(" heads") else 4  # scales, and the weights of the norm
        return stages * ((m + n) * k + 16) + 2 * 4 * 2048 + 2 * n * per_column, 12  # slices and their barriers, slabs
    if name.endswith("wgmma"):
        return 128 * 512 + 4 * 80 * 512 + 8 * 9, 12  # queries, two stages of keys and values, barriers
    head_dim = int(re.search(r"head_dim (\d+)", name).group(1))
    queries, keys = (64 if head_dim >= 256 else 128), (16 if head_dim == 512 else 64)
    return (queries + 2 * keys) * head_dim * 2, 8 if head_dim == 512 else queries // 16


def read_object(path):
    """All tensor-core kernels of one object file."""
    usage = {}
    arch = None
    function = None
    for line in run([tool("cuobjdump"), "-res-usage", str(path)]).splitlines():
        if found := re.search(r"arch = sm_(\d+)", line):
            arch = int(found.group(1))
        elif found := re.search(r"Function (\S+):", line):
            function = found.group(1)
        elif found := re.search(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)", line):
            usage[arch, function] = [int(v) for v in found.groups()]
    kernels = []
    code = []

    def close():
        if not function or (arch, function) not in usage or not any("MMA" in text for _, text in code):  # an empty body: built for an older GPU
            return
        registers, stack, _, local = usage[arch, function]
        if tile := tile_of(function):
            kernels.append(Kernel(name_of(tile), arch, registers, stack + local, shared_bytes(tile), tuple(code), tile))
        elif name := other_name(function):
            kernels.append(Kernel(name, arch, registers, stack + local, other_size(name)[0], tuple(code), None))

    function = None
    for line in run([tool("cuobjdump"), "-sass", str(path)]).splitlines():
        if found := re.search(r"arch = sm_(\d+)", line):
            close()
            function, arch = None, int(found.group(1))
        elif found := re.search(r"Function : (\S+)", line):
            close()
            function, code = found.group(1), []
        elif found := re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?);", line):
            code.append((int(found.group(1), 16), found.group(2).strip()))
    close()
    return kernels


def shared_bytes(tile):
    return tile.stages * (tile.m + tile.n) * tile.k + (tile.m + tile.n) * 4


def opcode(text):
    return re.sub(r"^@!?U?P\w+\s+", "", text).split()[0].split(".")[0]


def is_live(text):
    """False for instructions that the assembler switched off (@!PT …): fillers around hardware hazards."""
    return not text.startswith(("@!PT", "@!UPT"))


RARE = {"MUFU", "F2I", "I2F"}  # integer division: only where a tile is opened


def blocks_of(code):
    """Basic blocks: first address -> (instructions, addresses of the blocks that may follow)."""
    target_of = {}
    for address, text in code:
        # CALL.REL.NOINC is a jump too: the assembler uses it where a branch would leave a convergence region.
        if found := re.search(r"\b(?:BRA|CALL\.REL\.NOINC)\b.*?0x([0-9a-f]+)", text):
            target_of[address] = int(found.group(1), 16)
    starts = {code[0][0]} | set(target_of.values())
    for i, (_, text) in enumerate(code[:-1]):
        if opcode(text) in ("BRA", "EXIT", "RET", "BRX", "CALL"):
            starts.add(code[i + 1][0])
    blocks = {}
    start = None
    for i, (address, text) in enumerate(code):
        if address in starts:
            start = address
            blocks[start] = ([], [])
        blocks[start][0].append(text)
        last = i + 1 == len(code) or code[i + 1][0] in starts
        if last:
            after = blocks[start][1]
            if address in target_of:
                after.append(target_of[address])
            # A condition stands before the instruction or, for branches on uniform predicates, behind it: BRA.U !UP0, 0x…
            unconditional = opcode(text) in ("BRA", "EXIT", "RET") and not text.startswith("@") and not re.search(r"\s!?U?P\d", text)
            if not unconditional and i + 1 < len(code):
                after.append(code[i + 1][0])
    return blocks


def loops_of(blocks, entry):
    """Natural loops: (header, last block, blocks) for every edge that goes back."""
    order, on_path, back = [], set(), []

    def visit(block):  # depth first, by hand: kernels have long chains
        stack = [(block, iter(blocks[block][1]))]
        seen = {block}
        on_path.add(block)
        while stack:
            here, following = stack[-1]
            for after in following:
                if after not in blocks:
                    continue
                if after in on_path:
                    back.append((here, after))
                elif after not in seen:
                    seen.add(after)
                    on_path.add(after)
                    stack.append((after, iter(blocks[after][1])))
                    break
            else:
                on_path.discard(here)
                order.append(here)
                stack.pop()

    visit(entry)
    before = collections.defaultdict(set)
    for block, (_, following) in blocks.items():
        for after in following:
            before[after].add(block)
    for last, header in back:
        inside, todo = {header, last}, [last]
        while todo:
            block = todo.pop()
            if block == header:
                continue
            for previous in before[block] - inside:
                inside.add(previous)
                todo.append(previous)
        yield header, last, inside


def usual_pass(kernel):
    key = kernel.name, kernel.arch
    if key not in PASSES:
        PASSES[key] = find_usual_pass(kernel)
    return PASSES[key]


PASSES = {}


def find_usual_pass(kernel):
    """The instructions of one usual pass through the loop over slices: the loop with all products, and in it the way that opens no tile."""
    blocks = blocks_of(kernel.code)
    products = {b: sum(opcode(t) == "IMMA" for t in texts) for b, (texts, _) in blocks.items()}
    size = {b: len(texts) for b, (texts, _) in blocks.items()}
    loops = list(loops_of(blocks, kernel.code[0][0]))
    if not loops:
        return []
    header, last, inside = max(loops, key=lambda loop: (sum(products[b] for b in loop[2]), -sum(size[b] for b in loop[2])))
    best = {}

    def cost(block):
        texts = blocks[block][0]
        return -products[block], sum(opcode(t) in RARE or re.match(r"(@!?P\d )?LDGSTS\.E \[", t) is not None for t in texts), size[block]

    def go(block, path):  # best way from block to last; None if there is none
        if block == last:
            return cost(block), [block]
        if block in best:
            return best[block]
        found = None
        for after in blocks[block][1]:
            if after in inside and after != header and after not in path:
                way = go(after, path | {block})
                if way:
                    total = tuple(x + y for x, y in zip(cost(block), way[0]))
                    if found is None or total < found[0]:
                        found = (total, [block] + way[1])
        best[block] = found
        return found

    way = go(header, frozenset())
    return [text for block in (way[1] if way else []) for text in blocks[block][0]]


def hot(kernel):
    """Counts of opcodes in a usual pass. LDGSTS counts the 16-byte copies of slices alone."""
    return collections.Counter(opcode(text) for text in usual_pass(kernel) if is_live(text))


def expected(tile):
    steps = tile.k // STEP_BYTES // tile.warps_k
    blocks_m = tile.m // tile.warps_m // 16
    blocks_n = tile.n // tile.warps_n // 8
    quarters = 4 if tile.by_registers else 1
    return {"IMMA": steps * blocks_m * blocks_n * quarters, "LDSM": steps * (blocks_m + blocks_n // 2)}


def copies(tile):
    threads = 32 * tile.warps_m * tile.warps_n * tile.warps_k
    rows = threads // (tile.k // 16)
    return -(-tile.m // rows) + -(-tile.n // rows)


def warps_of(kernel):
    return kernel.tile.warps_m * kernel.tile.warps_n * kernel.tile.warps_k if kernel.tile else other_size(kernel.name)[1]


def occupancy(kernel):
    """CTAs that fit one SM."""
    warps_per_sm, shared_per_sm, most = GPUS[kernel.arch]
    if kernel.shared > most:
        return 0
    registers = -(-kernel.registers // 8) * 8 * 32 * warps_of(kernel)
    return min(warps_per_sm // warps_of(kernel), REGISTERS_PER_SM // registers, shared_per_sm // (kernel.shared + RESERVED_SHARED))


def dependent_distance(kernel):
    """Fewest products from one to the next on the same sums, going round the loop."""
    destinations = [found.group(1) for text in usual_pass(kernel) if (found := re.match(r"IMMA\S* (R\d+),", text))]
    shortest = len(destinations)
    last = {}
    for i, register in enumerate(destinations * 2):
        if register in last:
            shortest = min(shortest, i - last[register])
        last[register] = i
    return shortest


def allowed_distance(kernel):
    if kernel.tile.by_registers:
        return 1  # a product in quarters of m8n8k16: two of them follow each other on the same sums
    return ALLOWED_DISTANCE_OF_SM.get((kernel.name, kernel.arch), ALLOWED_DISTANCE.get(kernel.name, MIN_DISTANCE))


def others(counts):
    return sum(counts.values()) - sum(counts[name] for name in ("IMMA", "LDSM", "LDGSTS", "BAR"))


def is_large(tile):
    return tile.m * tile.n >= 128 * 128


def wgmma_loops(kernel):
    """Opcode counts of the innermost loops over slices of a wgmma kernel, those that no other such loop lies in."""
    blocks = blocks_of(kernel.code)
    with_products = [inside for _, _, inside in loops_of(blocks, kernel.code[0][0]) if any("GMMA" in t for b in inside for t in blocks[b][0])]
    innermost = [inside for inside in with_products if not any(other < inside for other in with_products)]
    return [collections.Counter(opcode(t) for b in inside for t in blocks[b][0] if is_live(t)) for inside in innermost]


def check(kernel):
    """Sentences about what is wrong with one kernel."""
    wrong = []
    if kernel.stack > ALLOWED_STACK.get(kernel.name, 0):
        wrong.append(f"{kernel.stack} bytes of local memory")
    if kernel.registers > 255:
        wrong.append(f"{kernel.registers} registers")
    if kernel.tile is not None:
        return wrong + check_loop(kernel)
    if spilled := sum(opcode(text) in ("LDL", "STL") for _, text in kernel.code):
        wrong.append(f"{spilled} loads and stores of local memory")
    if kernel.name.startswith("wgmma"):
        loops = wgmma_loops(kernel)
        if not loops:
            wrong.append("no loop with products found")
        for counts in loops:
            wrong += [f"{counts[name]} {name} in a main loop" for name in SLOW if counts[name]]
    return wrong


SLOW = ("I2F", "I2FP", "FMUL", "FFMA", "IDIV")  # work of the epilogue


def check_loop(kernel):
    wrong = []
    tile = kernel.tile
    counts = hot(kernel)
    for name, count in expected(tile).items():
        if counts[name] != count:
            wrong.append(f"{counts[name]} {name} per slice instead of {count}")
    if not tile.by_registers and counts["LDGSTS"] != copies(tile):
        wrong.append(f"{counts['LDGSTS']} LDGSTS per slice instead of {copies(tile)}")
    if counts["BAR"] != 1:
        wrong.append(f"{counts['BAR']} barriers per slice instead of 1")
    for name in ("LDL", "STL", *SLOW):
        if counts[name]:
            wrong.append(f"{counts[name]} {name} in the main loop")
    if dependent_distance(kernel) < allowed_distance(kernel):
        wrong.append(f"products follow each other on the same sums after {dependent_distance(kernel)} instead of {allowed_distance(kernel)}")
    if is_large(tile) and not tile.by_registers:
        least = ALLOWED_DENSITY_OF_SM.get((kernel.name, kernel.arch), ALLOWED_DENSITY.get(kernel.name, MIN_DENSITY))
        if density(kernel) < least:
            wrong.append(f"only {density(kernel):.1%} of the main loop are products instead of {least:.0%}")
        most = ALLOWED_OTHERS_OF_SM.get((kernel.name, kernel.arch), MOST_OTHERS)
        if others(counts) > most:
            wrong.append(f"{others(counts)} other instructions per slice instead of {most}")
    return wrong


def density(kernel):
    counts = hot(kernel)
    total = sum(counts.values())
    return counts["IMMA"] / total if total else 0.0


def predictions_of(program):
    """(family, sm, tile m, n, k, warps m, n, k, stages) -> share of the limit and rows of x, as predict_gpus prints them."""
    found = {}
    for line in run([str(program), "--kernels"]).splitlines():
        family, *numbers, share, rows = line.split()
        found[(family, *map(int, numbers))] = f"{share} % at M {rows}"
    return found


def predicted(kernel, predictions):
    if found := re.match(r"wgmma (\d+)x(\d+)x(\d+) s(\d+)( ping-pong)?", kernel.name):
        m, n, k, stages = map(int, found.groups()[:4])
        return predictions.get(("wgmma_sm90", kernel.arch, m, n, k, 4 if found.group(5) else 8, 1, 1, stages), "–")
    if kernel.tile is None:
        return "–"
    t = kernel.tile
    family = "mma_sm75" if t.by_registers else "mma_sm80"
    return predictions.get((family, kernel.arch, t.m, t.n, t.k, t.warps_m, t.warps_n, t.warps_k, t.stages), "–")


def table(kernels, predictions):
    lines = [
        "# What the tensor-core kernels compile to", "",
        "Written by `cmake --build build/cuda --target kernels_static`, that is `tools/check_sass.py --write-table`, from the machine code of a build.",
        "`make test` (`static.sass`) holds every kernel of a build to the limits below; it needs a disassembler but no GPU.", "",
        "## W8A8, mma.sync", "",
        "A name is tile M×N×K, warps along M, N and K, stages; `registers`: slices travel by registers, products are Turing's small ones.",
        "Per slice and warp, in the main loop: products (IMMA), fragment loads (LDSM), copies (LDGSTS), barriers (BAR), all other instructions; a warp",
        "multiplies K bytes of each row per slice. `density` = products / all. `distance` = products from one to the next on the same sums.",
        "`shared` is bytes per CTA; `CTAs` and `warps` is how many fit one SM (0: the tile needs more shared memory than this GPU gives).",
        "`share` is a **prediction**, not measured: of the int8 limit at boost clock (of the memory's where that is lower), from the model that picks an",
        "untuned machine's kernels (`src/ops/linear/choose.cpp`), for N 13824, K 4608 and M 4096 or the most rows that the kernel takes, on 2080 Ti, A100,",
        "3090, 4090, H200, 5090.",
        "Turing's tiles on later GPUs, up to Hopper, are there for tests and as a last choice.", "",
        "| kernel | sm | registers | spill | shared | CTAs | warps | K | IMMA | LDSM | LDGSTS | BAR | others | density | distance | share |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for k in kernels:
        if k.tile is None:
            continue
        counts = hot(k)
        cells = [k.name, k.arch, k.registers, k.stack, k.shared, occupancy(k), occupancy(k) * warps_of(k), k.tile.k // k.tile.warps_k,
                 counts["IMMA"], counts["LDSM"], counts["LDGSTS"], counts["BAR"], others(counts), f"{density(k):.0%}", dependent_distance(k),
                 predicted(k, predictions)]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    dense = "; ".join(f"**{name} misses it** and is held to {least:.0%}" for name, least in sorted(ALLOWED_DENSITY.items()))
    near = ", ".join(f"{least} in {name}" for name, least in sorted(ALLOWED_DISTANCE.items()))
    lines += [
        "", "### Limits, and what misses the design", "",
        "- One named case may spill: " + ", ".join(f"{most} bytes in {name}" for name, most in ALLOWED_STACK.items()) + ", outside its main loop.",
        "- Registers ≤ 255, no other spill, no local memory, `I2F`, `FMUL` or `FFMA` in a main loop.",
        "- IMMA, LDSM, LDGSTS and BAR: exactly what the tile's shape asks for.",
        f"- Density ≥ {MIN_DENSITY:.0%} in tiles from 128×128 on. {dense}: its four warps copy what eight do in the others.",
        "  Smaller tiles have few products per address and no limit. On sm_120 "
        + "; ".join(f"{name} is held to {least:.0%}" for (name, _), least in sorted(ALLOWED_DENSITY_OF_SM.items())) + ".",
        f"- Others ≤ {MOST_OTHERS} in those tiles. **The design asked for 30**: addresses of copies and the test for the tile's end cost more.",
        f"- Distance ≥ {MIN_DISTANCE}. **Small tiles miss it** and are held to {near}.",
        "  Turing's tiles have no limit: quarters of a product follow each other on the same sums.",
    ]
    other = [k for k in kernels if k.tile is None]
    if other:
        lines += ["", "## wgmma and attention", "",
                  "Held to: registers ≤ 255 and no local memory anywhere; W8A8 kernels also to main loops without `I2F`, `FMUL`, `FFMA`.",
                  "`loop` counts wgmma instructions and all instructions of the innermost loops over slices (one per kind of tile).",
                  "Registers of wgmma kernels are those at launch; a consumer takes more while it runs.", "",
                  "| kernel | sm | registers | spill | shared | CTAs | warps | loop: wgmma of all | share |", "|---|---|---|---|---|---|---|---|---|"]
        for k in other:
            loops = wgmma_loops(k) if k.name.startswith("wgmma") else []
            text = ", ".join(f"{c['IGMMA']} of {sum(c.values())}" for c in loops) or "–"
            cells = [k.name, k.arch, k.registers, k.stack, k.shared, occupancy(k), occupancy(k) * warps_of(k), text, predicted(k, predictions)]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("objects", nargs="*", type=pathlib.Path)
    parser.add_argument("--table", type=pathlib.Path, default=ROOT / "docs" / "kernels_static.md")
    parser.add_argument("--write-table", action="store_true")
    parser.add_argument("--predict", type=pathlib.Path)
    options = parser.parse_args()
    if not options.objects:
        print("check_sass: not checked: this build has no CUDA kernels")
        return SKIP
    missing = [name for name in ("cuobjdump", "nvdisasm") if tool(name) is None]
    if missing:
        print(f"check_sass: not checked: {' and '.join(missing)} not found; scripts/setup.sh installs them into .venv (tools/requirements.txt)")
        return SKIP
    unique = {}
    with concurrent.futures.ProcessPoolExecutor(max_workers=2) as pool:
        for found in pool.map(read_object, options.objects):
            for kernel in found:
                unique.setdefault((kernel.name, kernel.arch), kernel)
    kernels = sorted(unique.values(), key=lambda k: (k.name, k.arch))
    if not any(k.tile for k in kernels):
        print("check_sass: no mma kernel in", *options.objects)
        return 1
    failures = 0
    for kernel in kernels:
        for sentence in check(kernel):
            failures += 1
            print(f"check_sass: {kernel.name}, sm_{kernel.arch}: {sentence}")
    text = table(kernels, predictions_of(options.predict) if options.predict else {})
    print(text)
    if options.write_table:
        options.table.write_text(text, encoding="utf-8")
    print(f"check_sass: {len(kernels)} kernels on {len({k.arch for k in kernels})} architectures, {failures} faults")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
