"""Plants the mutants of checks.txt in a copy of the project, builds the unit test that each names there, and requires
that it fails.  run_checks.py BUILD-DIR"""
import pathlib
import shutil
import subprocess
import sys
import time

from run import apply, chosen_of, mutants

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAST = "-O0 -g0 -w"
LIMIT_S = 120  # of a test without a mutant
# With one, a test that takes so much longer than without has found it: many a mutant is that something is waited for for ever.
PATIENCE, PATIENCE_S = 10, 10


def copy_of_the_project(to):
    shutil.rmtree(to, ignore_errors=True)
    names = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                           capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name)  # newer than what the last mutant left built


def build(folder, *targets):
    return subprocess.run(["ninja", "-C", str(folder), *targets], capture_output=True, text=True)


def passes(folder, program, test_filter, limit_s=LIMIT_S):
    """None: it cannot be run here, for want of root or of memory without limits."""
    try:
        run = subprocess.run([str(folder / "bin" / program), f"--gtest_filter={test_filter}"], capture_output=True,
                             text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return False
    if run.returncode == 0 and "[  PASSED  ] 0 tests" in run.stdout:
        return None
    return run.returncode == 0


def main():
    base = pathlib.Path(sys.argv[1]).resolve()
    tree, folder = base / "tree", base / "build"
    copy_of_the_project(tree)
    chosen = chosen_of(mutants("checks.txt"))
    subprocess.run(["cmake", "-S", str(tree), "-B", str(folder), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                    "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=0",
                    f"-DCMAKE_CXX_FLAGS_RELEASE={FAST}", f"-DCMAKE_C_FLAGS_RELEASE={FAST}"],
                   check=True, stdout=subprocess.DEVNULL)
    programs = sorted({m["test"][0] for m in chosen})
    built = build(folder, *programs)
    if built.returncode != 0:
        sys.exit("does not build without a mutant: " + built.stdout[-2000:])
    for m in chosen:
        begin = time.monotonic()
        m["passes"] = passes(folder, *m["test"])
        m["limit_s"] = PATIENCE_S + PATIENCE * (time.monotonic() - begin)
        if m["passes"] is False:
            sys.exit(f"{' '.join(m['test'])} fails without a mutant")
    print(f"{'mutant':72} found by")
    bad = 0
    for m in chosen:
        if m["passes"] is None:
            print(f"{m['name']:72} SKIP: {' '.join(m['test'])} cannot be run here", flush=True)
            continue
        path = tree / "src" / m["file"]
        original = path.read_text()
        verdict = " ".join(m["test"])
        if not apply(path, m["old"], m["new"]):
            verdict = "DOES NOT APPLY"
        elif (built := build(folder, m["test"][0])).returncode != 0:
            verdict = "DOES NOT BUILD " + built.stdout[-300:]
        elif passes(folder, *m["test"], m["limit_s"]):
            verdict = "SURVIVED"
        path.write_text(original)
        bad += verdict.startswith(("DOES NOT", "SURVIVED"))
        print(f"{m['name']:72} {verdict}", flush=True)
    print(f"{bad} of {len(chosen)} mutants were not killed" if bad else "all killed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
