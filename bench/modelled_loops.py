#!/usr/bin/env python3
"""Models the speed of inner loops on CPUs that are not here, from the object code of a build.

    bench/modelled_loops.py [--build build/release] [--arm build/aarch64] [--mca llvm-mca-19]

Nothing is run. Instructions are taken from `objdump -d` of the kernels' objects, what they cost
from llvm-mca's models of CPUs, and for AMX, which llvm-mca does not model, from Intel's figures
(TILE_PRODUCT and the next ones). A loop is found by what it contains, so that another compiler's
code is found too.

amx: all instructions of a call that depend on its size, by unit: products of tiles; load ports (two
rows of 64 bytes a cycle, or three shorter ones); store port (one a cycle); everything else by
llvm-mca for sapphirerapids. The unit is the time of the products without padding at the limit of
16 cycles each: `products` counts those of padding too. `share` is that time over the busiest
unit's; `in turn` is the same over the sum of all units, as if nothing ran at the same time.

avx2: `share` is the time that the ports need for the multiply-adds alone (with the additions of
their results) over that of the whole inner loop. 16 products a cycle are the peak of f32.

arm: the same for the inner loops of 64-bit ARM, from a cross build. On a CPU whose level is lower
than a loop's there is no figure.
"""

import argparse
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

# Cycles by Intel's Optimization Reference Manual, "Intel AMX instruction throughput and latency".
TILE_PRODUCT, TILE_LOAD, TILE_STORE = 16, 8, 16
PANEL, GROUP, TILE = 64, 32, 16
AVX2_CPUS = ("znver3", "znver4", "alderlake", "icelake-server")
AMX_CPU = "sapphirerapids"
ARM_CPUS = {"neoverse-n1": "neon_dotprod", "neoverse-v1": "neon_bf16", "neoverse-v2": "neon_bf16"}
LOAD_PORTS, STORE_PORTS = (2, 3, 11), (4, 7, 8, 9)  # of it, counted apart: Units
LINE = re.compile(r"^\s*([0-9a-f]+):\t(.*?)\s*(?:# .*)?$")
STORE = re.compile(r",\s*-?(0x[0-9a-f]+)?\([^)]*\)(\{%k\d\})?$")
BRANCH = re.compile(r"^j\w+\s+([0-9a-f]+) <")
ARM_BRANCH = re.compile(r"^(?:b|b\.\w+|cbn?z\s+\w+,|tbn?z\s+\w+, #\d+,)\s+([0-9a-f]+) <")
MULTIPLY_ADD = re.compile(r"^(\{vex\} )?(vfn?madd|vpmaddubsw|vpmaddwd|vpdpbusd|vpaddw|vpaddd)")

Code = list[tuple[int, str]]


@dataclass(frozen=True)
class Loop:
    function: str
    first: int  # indices of instructions
    last: int
    body: tuple[str, ...]

    def count(self, *operations: str) -> int:
        return sum(text.removeprefix("{vex} ").startswith(operations) for text in self.body)

    def contains(self, other: "Loop") -> bool:
        return self != other and self.function == other.function and self.first <= other.first and other.last <= self.last


def disassemble(path: Path, objdump: str) -> dict[str, Code]:
    text = subprocess.run([objdump, "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
    functions: dict[str, Code] = {}
    code: Code = []
    for line in text.splitlines():
        if name := re.match(r"^[0-9a-f]+ <(.*)>:$", line):
            code = functions.setdefault(name[1], [])
        elif found := LINE.match(line):
            code.append((int(found[1], 16), found[2].split(" //")[0].replace("\t", " ")))
    return functions


def loops_of(path: Path, objdump: str = "objdump", branch: re.Pattern = BRANCH) -> list[Loop]:
    """What lies between a jump back and its target."""
    found = []
    for function, code in disassemble(path, objdump).items():
        index = {address: i for i, (address, _) in enumerate(code)}
        for last, (address, text) in enumerate(code):
            target = branch.match(text)
            if target and int(target[1], 16) <= address and int(target[1], 16) in index:
                first = index[int(target[1], 16)]
                found.append(Loop(function, first, last, tuple(t for _, t in code[first : last + 1])))
    return found


def innermost(loops: list[Loop]) -> list[Loop]:
    return [loop for loop in loops if not any(loop.contains(other) for other in loops)]


def one(loops: list[Loop], what: str) -> Loop:
    """The shortest of the loops that fit."""
    if not loops:
        sys.exit(f"modelled_loops: found no {what}: does the build have another compiler's code?")
    return min(loops, key=lambda loop: len(loop.body))


class Mca:
    def __init__(self, program: str):
        self.program = program

    @lru_cache(maxsize=None)
    def cycles(self, body: tuple[str, ...], cpu: str) -> float:
        """Of one pass in the steady state, everything in the first cache."""
        return self.figures(body, cpu)[0]

    @lru_cache(maxsize=None)
    def figures(self, body: tuple[str, ...], cpu: str) -> tuple[float, float, list[float], float]:
        """Cycles of a pass, its micro-operations, how many of them each port gets, and the cycles
        of a pass where no result has to be waited for."""
        if cpu in ARM_CPUS:
            target = ["-mtriple=aarch64", "-mattr=+dotprod,+i8mm,+bf16"]
            text = [re.sub(r"[0-9a-f]+ <.*", "1f", line) if ARM_BRANCH.match(line) else line for line in body]
        else:
            target = ["-mtriple=x86_64"]
            text = [re.sub(BRANCH.pattern.lstrip("^") + ".*", "jne 1f", line) for line in body]
        source = "\n".join(line for line in text if not line.startswith(("jmp", "call", "notrack"))) + "\n1:\n"
        command = [self.program, *target, f"-mcpu={cpu}", "-iterations=200", "-"]
        done = subprocess.run(command, input=source, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"modelled_loops: {self.program}: {done.stderr[:300]}")
        cycles, uops = (float(re.search(rf"Total {what}:\s+(\d+)", done.stdout)[1]) / 200 for what in ("Cycles", "uOps"))
        ports = re.search(r"Resource pressure per iteration:\n.*\n(.*)", done.stdout)[1].split()
        least = float(re.search(r"Block RThroughput:\s+([\d.]+)", done.stdout)[1])
        return cycles, uops, [0.0 if port == "-" else float(port) for port in ports], least

    def server_cycles(self, body: tuple[str, ...]) -> float:
        """Of a pass on Sapphire Rapids. LLVM's model of it has the client's one port (0) for
        products of 64 bytes, and servers have a second one (5): the two share what both have."""
        _, uops, ports, _ = self.figures(body, AMX_CPU)
        both = (ports[0] + ports[5]) / 2
        others = [port for i, port in enumerate(ports) if i not in (0, *LOAD_PORTS, *STORE_PORTS, 5)]
        return max(both, uops / 6, *others)


# ---- AMX


def is_tile(text: str) -> bool:
    return text.startswith(("tdp", "tileload", "tilestore", "tilezero"))


@dataclass
class Units:
    """Cycles of each unit."""

    mca: Mca
    products: float = 0
    loads: float = 0
    stores: float = 0
    rest: float = 0
    useful: float = 0
    slots: Counter = field(default_factory=Counter)

    def tiles(self, products: float = 0, loads: float = 0, stores: float = 0) -> None:
        self.products += TILE_PRODUCT * products
        self.loads += TILE_LOAD * loads
        self.stores += TILE_STORE * stores

    def run(self, body: tuple[str, ...], times: float) -> None:
        """A body of instructions, that many times."""
        rest = tuple(text for text in body if not is_tile(text))
        tiles = Counter(text.split()[0] for text in body if is_tile(text))
        products = sum(n for name, n in tiles.items() if name.startswith("tdp"))
        self.tiles(products * times, tiles["tileloadd"] * times, tiles["tilestored"] * times)
        if rest:
            self.rest += self.mca.server_cycles(rest) * times
        stores = sum(bool(STORE.search(text)) and not text.startswith(("cmp", "test", "lea")) for text in rest)
        loads = sum("(" in text and not text.startswith("lea") for text in rest) - stores
        wide = sum("zmm" in text and "(" in text for text in rest) - sum("zmm" in text and bool(STORE.search(text)) for text in rest)
        self.loads += (wide / 2 + (loads - wide) / 3) * times
        self.stores += stores * times

    def row(self) -> tuple[float, float, float, float, float, float]:
        units = (self.products, self.loads, self.stores, self.rest)
        return (*(unit / self.useful for unit in units), self.useful / max(units), self.useful / sum(units))


def objects(build: Path, name: str) -> Path:
    found = sorted(build.glob(f"src/**/{name}.c.o"))
    if not found:
        sys.exit(f"modelled_loops: no {name}.c.o below {build}: build it first")
    return found[0]


def ceil(a: int, b: int) -> int:
    return -(-a // b)


def own_part(loop: Loop, loops: list[Loop]) -> tuple[str, ...]:
    """A loop without those inside it."""
    inside = {i for other in loops if loop.contains(other) for i in range(other.first, other.last + 1)}
    return tuple(text for i, text in enumerate(loop.body, loop.first) if i not in inside)


def linear_bf16(mca: Mca, build: Path, rows: int, n_in: int, n_out: int) -> Units:
    """A call of bf16_tile_amx.c for each panel; rows are a multiple of 32."""
    loops = loops_of(objects(build, "bf16_tile_amx"))
    step = one([loop for loop in loops if loop.count("tdpbf16ps") == 4], "step of 32 inputs")
    line = one([loop for loop in innermost(loops) if step.contains(loop)], "loop that asks for weights")
    writes = [loop for loop in innermost(loops) if loop.count("vcvtneps2bf16") and loop.count("vaddps")]
    write = max(writes, key=lambda loop: len(loop.body)) if writes else one([], "loop that writes a row")
    units = Units(mca, useful=TILE_PRODUCT * rows / TILE * n_in / 32 * n_out / TILE)
    halves = ceil(n_out, PANEL) * 2 * (rows // GROUP)
    steps, blocks = ceil(n_in, 32), ceil(n_in, 256)
    units.run(own_part(step, loops), halves * steps)
    units.run(line.body, ceil(n_out, PANEL) * n_in * PANEL * 2 / 64)
    units.tiles(loads=halves * (blocks - 1) * 4, stores=halves * blocks * 4)
    units.run(write.body, halves * GROUP)
    return units


def linear_small_groups(mca: Mca, build: Path, rows: int, n_in: int, n_out: int, group: int) -> Units:
    """int4 in groups of one product or a part of one: 14 rows by 32 outputs, two groups a pass,
    whose sums are scaled from memory; blocks of 256 inputs. A product of fewer rows than 16 is
    counted as one of 16; rows of tiles that are loaded and stored are counted as they are."""
    some, step = 14, 64 if group == 64 else 32
    steps = ceil(group, step)
    loops = [loop for loop in loops_of(objects(build, "integer_panel_amx")) if "small_groups" in loop.function]
    outer = [loop for loop in loops if loop.count("vfmadd") == 2 * 2 * some == loop.count("vcvtdq2ps") and loop.count("tdpbssd") == 4]
    passes = one([loop for loop in outer if not loop.count("vfnmadd")], "two groups")
    unpack = one([loop for loop in innermost(loops) if loop.count("vpsrlw")], "loop that unpacks")
    units = Units(mca, useful=TILE_PRODUCT * rows / TILE * n_in / 64 * n_out / TILE)
    # an end of fewer rows is counted as a whole
    times = ceil(n_out, 32) * ceil(rows, 128) * ceil(min(rows, 128), some)
    units.run(tuple(text for text in passes.body if not is_tile(text)), times * n_in / group / 2)
    a_group = (some + 2 * min(group, step) / 4) / TILE * steps
    units.tiles(products=times * n_in / group * 2 * steps, loads=times * n_in / group * a_group)
    units.tiles(stores=times * n_in / group * 2 * some / TILE)
    blocks = ceil(n_in, 256)
    units.loads += times * blocks * 2 * some / 2
    units.stores += times * blocks * 2 * some
    units.run(unpack.body, n_in * PANEL / 2 / 64 * ceil(n_out, PANEL) / unpack.count("vpsrlw"))
    return units


def linear_integer(mca: Mca, build: Path, rows: int, n_in: int, n_out: int, group: int, bits: int) -> Units:
    """group 0: a scale for all inputs of an output."""
    if group == 64 or group % 64:
        return linear_small_groups(mca, build, rows, n_in, n_out, group)
    loops = loops_of(objects(build, "integer_panel_amx"))
    loops = [loop for loop in loops if loop.function == ("block_u4" if bits == 4 else "block_s8")]
    step = one([loop for loop in innermost(loops) if loop.count("tdpbssd") == 4], "step of 64 inputs")
    ends = [loop for loop in innermost(loops) if loop.count("vcvtdq2ps") == 2 and bool(loop.count("vpmulld")) == (not group)]
    end = one([loop for loop in ends if not loop.count("vfnmadd") and loop.count("vmovups", "vfmadd132ps") >= 2], "end of a group")
    units = Units(mca, useful=TILE_PRODUCT * rows / TILE * n_in / 64 * n_out / TILE)
    halves = ceil(n_out, PANEL) * 2 * (rows // GROUP)
    taken = min(group or 256, 256)
    blocks = ceil(n_in, taken)
    units.run(step.body, halves * sum(ceil(min(taken, n_in - k), 64) for k in range(0, n_in, taken)))
    units.tiles(loads=0 if group else halves * (blocks - 1) * 4, stores=halves * blocks * 4)
    units.run(end.body, halves * (blocks if group else 1) * GROUP)
    if bits == 4:
        unpack = one([loop for loop in innermost(loops) if loop.count("vpsrlw")], "loop that unpacks")
        lines = n_in * PANEL / 2 / 64 * ceil(n_out, PANEL)
        units.run(unpack.body, lines / unpack.count("vpsrlw"))
    return units


def attention(mca: Mca, build: Path, head_dim: int) -> Units:
    """32 queries and a block of 64 keys, all of them seen, no new maximum."""
    loops = [loop for loop in loops_of(objects(build, "attention_tile_amx")) if loop.function == "attend_32"]
    pair = one([loop for loop in innermost(loops) if loop.count("vdpbf16ps") == 2], "loop that makes weights")
    spans = [loop for loop in loops if loop.count("tdpbf16ps") == 4 and loop.count("vdpbf16ps") == 2]
    span = one(spans, "product with weights made meanwhile")
    largest = one([loop for loop in innermost(loops) if loop.count("vmaxps") == 8], "loop that finds the largest score")
    units = Units(mca, useful=TILE_PRODUCT * 2 * (64 / TILE * head_dim / 32 + head_dim / TILE * 64 / 32))
    key_spans, tiles = ceil(head_dim, 32), ceil(head_dim, TILE)
    body = own_part(span, loops)
    units.run(body, 2 * key_spans + 2 * (tiles // 2))
    if tiles % 2:  # half of the sums, of one tile of values
        units.run(tuple(text for text in body if not is_tile(text)), 2)
        units.tiles(products=4, loads=6)
    units.run(pair.body, 32)
    units.run(largest.body, 16)
    units.tiles(loads=tiles * 2, stores=2 * 4 + tiles * 2)
    return units


def amx_rows(mca: Mca, build: Path) -> list[tuple[str, Units]]:
    shapes = {
        "2B tower, 128 rows": [(128, 1024, 3072), (128, 1024, 1024), (128, 1024, 4096), (128, 4096, 1024)],
        "2B prefill, 256 rows": [(256, 2048, 4096), (256, 2048, 2048), (256, 2048, 12288), (256, 6144, 2048)],
        "8B tower, 128 rows": [(128, 1152, 3456), (128, 1152, 1152), (128, 1152, 4304), (128, 4304, 1152)],
        "8B prefill, 256 rows": [(256, 4096, 6144), (256, 4096, 4096), (256, 4096, 24576), (256, 12288, 4096)],
    }
    rows = []
    for name, layers in shapes.items():
        rows.append((f"{name}: bf16", added(mca, [linear_bf16(mca, build, *layer) for layer in layers])))
        rows.append((f"{name}: int8", added(mca, [linear_integer(mca, build, *layer, 0, 8) for layer in layers])))
        if "prefill" in name:
            for group in (128, 64, 32):
                units = [linear_integer(mca, build, *layer, group, 4) for layer in layers]
                rows.append((f"{name}: int4, groups of {group}", added(mca, units)))
    rows += [(f"attention, D = {dim}", attention(mca, build, dim)) for dim in (64, 72, 80, 128)]
    return rows


def added(mca: Mca, units: list[Units]) -> Units:
    total = Units(mca)
    for part in units:
        for name in ("products", "loads", "stores", "rest", "useful"):
            setattr(total, name, getattr(total, name) + getattr(part, name))
    return total


# ---- AVX2


# Title, object, function, instruction that counts, products of one.
AVX2_LOOPS = (
    ("f32 (bf16 weights expanded)", "f32_tile_avx2", "multiply", "vfmadd231ps", 8),
    ("int8", "integer_panel_avx2", "tile_s8", "vpmaddubsw", 32),
    ("int8, sums of four that fit 16 bits", "integer_panel_avx2", "tile_s8", "vpmaddubsw", 32),
    ("int4", "integer_panel_avx2", "block_u4", "vpmaddubsw", 32),
    ("int8, AVX-VNNI", "integer_panel_avx2_vnni", "", "vpdpbusd", 32),
)


def avx2_loop(build: Path, title: str, name: str, function: str, operation: str) -> Loop:
    """The inner loop with the most multiply-adds."""
    loops = [loop for loop in innermost(loops_of(objects(build, name))) if function in loop.function]
    if function == "tile_s8":  # one widening for each product, or for two
        each = 2 if "fit" in title else 1
        loops = [loop for loop in loops if each * loop.count("vpmaddwd") == loop.count("vpmaddubsw")]
    return max(loops, key=lambda loop: loop.count(operation))


def avx2_cell(mca: Mca, loop: Loop, operation: str, products: int, cpu: str) -> str:
    if operation == "vpdpbusd" and cpu != "alderlake":
        return ""
    alone = tuple(text for text in loop.body if MULTIPLY_ADD.match(text))
    # what a multiply-add reads from memory is part of the loop, not of the limit
    alone = tuple(re.sub(r"-?(0x[0-9a-f]+)?\([^)]*\)", "%ymm15" if "ymm" in text else "%xmm15", text) for text in alone)
    cycles = mca.cycles(loop.body, cpu)
    return f"{mca.figures(alone, cpu)[3] / cycles:.2f}; {loop.count(operation) * products / cycles:.1f}"


def avx2_rows(mca: Mca, build: Path) -> list[tuple[str, list[str]]]:
    rows = []
    for title, name, function, operation, products in AVX2_LOOPS:
        loop = avx2_loop(build, title, name, function, operation)
        rows.append((title, [avx2_cell(mca, loop, operation, products, cpu) for cpu in AVX2_CPUS]))
    return rows


# ---- 64-bit ARM


# Title, object, function, level, instruction that counts, products of one.
ARM_LOOPS = (
    ("f32 (bf16 weights expanded)", "f32_tile_neon", "multiply", "neon", "fmla", 4),
    ("bf16", "bf16_tile_neon_bf16", "run", "neon_bf16", "bfmmla", 16),
    ("bf16, one row", "gemv_neon_bf16", "panel_bf16", "neon_bf16", "bfdot", 8),
    ("bf16, four rows", "gemv_neon_bf16", "panel_bf16", "neon_bf16", "bfdot", 8),
    ("int8 by SMMLA", "integer_panel_neon_bf16", "block_s8", "neon_bf16", "smmla", 32),
    ("int4 by SMMLA", "integer_panel_neon_bf16", "block_u4", "neon_bf16", "smmla", 32),
    ("int8 by SDOT", "integer_panel_neon_dotprod", "block_s8", "neon_dotprod", "sdot", 16),
    ("int4 by SDOT", "integer_panel_neon_dotprod", "block_u4", "neon_dotprod", "sdot", 16),
    ("attention in bf16", "attention_tile_neon_bf16", "attend_bf16", "neon_bf16", "bfmmla", 16),
    ("attention in f32", "attention_tile_neon", "attend_f32", "neon", "fmla", 4),
)


def arm_loop(build: Path, title: str, name: str, function: str, operation: str) -> Loop:
    """The inner loop with the most products; with several such, one row needs the most loads."""
    loops = loops_of(objects(build, name), "aarch64-linux-gnu-objdump", ARM_BRANCH)
    loops = [loop for loop in innermost(loops) if function in loop.function and loop.count(operation + " ")]
    most = max(loop.count(operation + " ") for loop in loops)
    loops = [loop for loop in loops if loop.count(operation + " ") == most]
    return (max if title.endswith("one row") else min)(loops, key=lambda loop: loop.count("ld"))


def arm_cell(mca: Mca, loop: Loop, level: str, operation: str, products: int, cpu: str) -> str:
    levels = ("neon", "neon_dotprod", "neon_bf16")
    if levels.index(level) > levels.index(ARM_CPUS[cpu]):
        return ""
    alone = tuple(text for text in loop.body if text.startswith(operation + " "))
    cycles = mca.cycles(loop.body, cpu)
    return f"{mca.figures(alone, cpu)[3] / cycles:.2f}; {len(alone) * products / cycles:.1f}"


def arm_rows(mca: Mca, build: Path) -> list[tuple[str, list[str]]]:
    rows = []
    for title, name, function, level, operation, products in ARM_LOOPS:
        loop = arm_loop(build, title, name, function, operation)
        rows.append((title, [arm_cell(mca, loop, level, operation, products, cpu) for cpu in ARM_CPUS]))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=Path("build/release"), help="folder of a build without OMMA_AMX_MODEL")
    parser.add_argument("--arm", type=Path, help="folder of a cross build for 64-bit ARM (tools/test_aarch64.sh)")
    parser.add_argument("--mca", default="llvm-mca-19", help="llvm-mca 17 or newer")
    options = parser.parse_args()
    mca = Mca(options.mca)
    if options.arm:
        print_cells("arm", ARM_CPUS, arm_rows(mca, options.arm))
        return
    print("| amx (modelled) | products | loads | stores | rest | share | in turn |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for title, units in amx_rows(mca, options.build):
        print(f"| {title} | " + " | ".join(f"{value:.2f}" for value in units.row()) + " |")
    print()
    print_cells("avx2", AVX2_CPUS, avx2_rows(mca, options.build))


def print_cells(level: str, cpus: Iterable[str], rows: list[tuple[str, list[str]]]) -> None:
    print(f"| {level} (modelled): share; products a cycle | {' | '.join(cpus)} |")
    print("| --- |" + " --- |" * len(list(cpus)))
    for title, cells in rows:
        print(f"| {title} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
