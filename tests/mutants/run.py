"""Runs the mutants of mutants.txt; see run.sh."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

SEEDS = 6000
HERE = pathlib.Path(__file__).resolve().parent
SEEDS_FILE = HERE.parent / "sim/seeds.txt"
SRC = HERE.parents[1] / "src"
CXX = os.environ.get("CXX", "g++")
FLAGS = ["-std=c++20", "-O1", "-w"]


def mutants(name):
    found = []
    for line in (HERE / name).read_text().splitlines():
        if line.startswith("= "):
            found.append({"name": line[2:], "file": "", "old": [], "new": []})
        elif line.startswith("@ "):
            found[-1]["file"] = line[2:]
        elif line.startswith("-"):
            found[-1]["old"].append(line[1:])
        elif line.startswith("+"):
            found[-1]["new"].append(line[1:])
        elif line.startswith("> "):
            found[-1]["test"] = line[2:].split()
        elif line.startswith("* "):
            found[-1]["worlds"] = line[2:].split()
    return found


def chosen_of(found):
    """All of them, or with LONGSHORE_INTERNAL_TEST_MUTANTS=quick every fifth: the commit says which."""
    if os.environ.get("LONGSHORE_INTERNAL_TEST_MUTANTS") != "quick":
        return found
    run = subprocess.run(["git", "-C", str(HERE), "rev-parse", "HEAD"], capture_output=True, text=True)
    begin = int(run.stdout.strip() or "0", 16) % 5
    print(f"every fifth of {len(found)} mutants, from number {begin + 1}")
    return found[begin::5]


def pattern_of(old, text):
    """What finds `old` in the text, whatever its line breaks; None if it is not there exactly once."""
    pattern = r"\s+".join(re.escape(word) for word in "\n".join(old).split())
    return pattern if len(re.findall(pattern, text)) == 1 else None


def apply(path, old, new):
    text = path.read_text()
    if (pattern := pattern_of(old, text)) is None:
        return False
    path.write_text(re.sub(pattern, lambda _: "\n".join(new), text))
    return True


def compile_all(tree, sources, out):
    def one(source):
        target = out / (source.replace("/", "_") + ".o")
        command = [CXX, *FLAGS, f"-I{tree}", f"-I{tree.parent}/include", f"-I{tree.parent}/lab", "-c", str(tree / source), "-o", str(target)]
        return subprocess.run(command, capture_output=True, text=True), target

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(one, sources))
    errors = [r.stderr for r, _ in done if r.returncode != 0]
    return (None, errors[0]) if errors else ([str(t) for _, t in done], "")


def failures(program, at_most=10, worlds=()):
    """(seed, oracle) of failing seeds of a kind of worlds, lowest first; if there are none, of those that once found a bug."""
    run = subprocess.run([str(program), *worlds, "--seeds", str(SEEDS), "--jobs", "2", "--stop-after", str(at_most),
                          "--no-floors"], capture_output=True, text=True)
    found = re.findall(r"FAILED seed (\d+), oracle '([^']+)'", run.stdout)
    if found:
        return found
    for seed, version, more in re.findall(r"^(\d+) (\d+) (--[a-z-]+)?", SEEDS_FILE.read_text(), re.M):
        run = subprocess.run([str(program), "--seed", seed, "--options-version", version, *more.split()],
                             capture_output=True, text=True)
        if oracle := re.search(r"^oracle '([^']+)'", run.stdout, re.M):
            found.append((seed, oracle[1]))
            break
    return found


def main():
    build, first, last = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]), int(sys.argv[3])
    chosen = chosen_of(mutants("mutants.txt"))
    bad = 0
    tree = build / "src"
    shutil.rmtree(build, ignore_errors=True)
    (build / "objects").mkdir(parents=True)
    shutil.copytree(SRC.parent / "include", build / "include")
    shutil.copytree(SRC.parent / "lab/simulator", build / "lab/simulator")
    shutil.copytree(SRC, tree)
    engine = sorted(str(p.relative_to(tree)) for p in (tree / "engine").rglob("*.cc") if "_test" not in p.name)
    sim = sorted(f"../lab/simulator/{p.name}" for p in (build / "lab/simulator").glob("*.cc") if p.name != "engine_bench.cc")
    # The parts of the fabric that the simulator runs, too.
    sim += [f"fabric/{name}.cc" for name in ("described_fabric", "region_directory", "region_frame", "region_talk")]
    base, error = compile_all(tree, engine + sim, build / "objects")
    if base is None:
        sys.exit("does not build without a mutant: " + error[:2000])
    whole = build / "longshore-sim"
    subprocess.run([CXX, "-o", str(whole), *base], check=True)
    kinds = {tuple(m.get("worlds", ())) for m in chosen}
    known = {seed for worlds in kinds for seed, _ in failures(whole, worlds=worlds)}  # of the engine as it is: these kill nothing
    if known:
        print("fail without a mutant and do not count:", *sorted(known, key=int))
    print(f"{'mutant':64} {'oracle':24} seed")
    for number, m in enumerate(chosen, 1):
        if not first <= number <= last:
            continue
        path = tree / m["file"]
        original = path.read_text()
        verdict = ("DOES NOT APPLY", "")
        if apply(path, m["old"], m["new"]):
            # A header is seen by all of them; a source by itself.
            sources = engine + sim if m["file"].endswith(".h") else [m["file"]]
            out = build / f"mutant{number}"
            out.mkdir()
            objects, error = compile_all(tree, sources, out)
            if objects is None:
                verdict = ("DOES NOT BUILD", error[:300])
            else:
                replaced = {pathlib.Path(o).name for o in objects}
                objects += [o for o in base if pathlib.Path(o).name not in replaced]
                program = out / "longshore-sim"
                subprocess.run([CXX, "-o", str(program), *objects], check=True)
                hits = [hit for hit in failures(program, 1 + len(known), m.get("worlds", ())) if hit[0] not in known]
                verdict = (hits[0][1], hits[0][0]) if hits else ("SURVIVED", "")
            shutil.rmtree(out, ignore_errors=True)
        path.write_text(original)
        bad += verdict[0].isupper()
        print(f"{m['name']:64} {verdict[0]:24} {verdict[1]}", flush=True)
    print(f"{bad} of {len(chosen)} mutants were not killed" if bad else "all killed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
