#!/usr/bin/env python3
"""Packs an installed tree into a wheel for pip: `pip install FILE` puts the tree into the environment (bin/, lib/, share/), where
every part finds the others from where it lies itself.

wheel.py TREE VERSION FOLDER: the tree is changed; the wheel is written into FOLDER, and its name to stdout.

The libraries that programs need come along in lib/longshore, but for those of the C and C++ language, and for MPI, UCX and OpenSSL: those are
what the machine has, or parts that are opened at run time would not be the ones that the program uses. Needs patchelf.
"""

import base64
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

# Of the system; the second line is what a wheel must not bring.
LEFT_OUT = re.compile(r"^(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|ld-linux.*)\.so"
                      r"|^(libmpi|libmpich|libmpi_abi|libpmpi|libuc[mpst]|libssl|libcrypto|libibverbs|librdmacm)\b")
# Of programs in those folders; the latter half: an MPI of the same environment.
RUN_PATHS = {folder: f"$ORIGIN/{up}/lib/longshore:$ORIGIN/{up}/lib" for folder, up in (("bin", ".."), ("libexec/longshore", "../.."))}
METADATA = """Metadata-Version: 2.1
Name: longshore
Version: {version}
Summary: MPI collectives carried by service processes on a DPU or spare cores
License: BSD-3-Clause
Requires-Python: >=3.7
"""


def words(*command):
    return subprocess.run([*map(str, command)], stdout=subprocess.PIPE, text=True, check=True).stdout


def is_program(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", words("readelf", "-d", path))


def locate(name):
    """Where the loader would find it."""
    for line in words("ldconfig", "-p").splitlines():
        if line.split()[:1] == [name] and ("x86-64" in line) == (platform.machine() == "x86_64"):
            return Path(line.rsplit("=> ", 1)[1]).resolve()
    sys.exit(f"wheel: {name} is needed and is not in the loader's folders")


def copyright_of(library):
    """What the distribution says of a library that others have written: it goes where the library goes."""
    if shutil.which("dpkg-query"):
        for path in (library, Path("/") / library.relative_to("/usr") if library.is_relative_to("/usr") else library):
            found = subprocess.run(["dpkg-query", "-S", path], capture_output=True, text=True, check=False).stdout
            notice = Path("/usr/share/doc") / found.split(":")[0] / "copyright"
            if found and notice.exists():
                return notice.read_text()
    sys.exit(f"wheel: nobody says under which licence {library} may be passed on (Debian's packages do)")


def gather_libraries(tree):
    """Brings what programs need into lib/longshore, and lets them find it."""
    own = tree / "lib/longshore"
    todo = [p for p in sorted(tree.rglob("*")) if p.is_file() and not p.is_symlink() and is_program(p)]
    while todo:
        program = todo.pop()
        brought = [name for name in needed(program) if not LEFT_OUT.match(name) and not (tree / "lib" / name).exists()]
        for name in brought:
            if (own / name).exists():
                continue
            own.mkdir(exist_ok=True)
            shutil.copy(locate(name), own / name)
            (own / f"{name}.copyright").write_text(copyright_of(locate(name)))
            todo.append(own / name)
        if program.parent == own:
            words("patchelf", "--set-rpath", "$ORIGIN", program)
        elif (path := RUN_PATHS.get(str(program.parent.relative_to(tree)))):
            words("patchelf", "--set-rpath", path, program)
        elif brought:
            sys.exit(f"wheel: {program.name} is loaded into programs of others and must not need {', '.join(brought)}")


def oldest_libc(tree):
    """The version of the GNU C library that all of it runs with."""
    versions = [(2, 17)]
    for path in tree.rglob("*"):
        if path.is_file() and is_program(path):
            versions += [(int(a), int(b)) for a, b in re.findall(r"\bGLIBC_(\d+)\.(\d+)", words("readelf", "-V", path))]
    return max(versions)


def pack(tree, version, folder):
    major, minor = oldest_libc(tree)
    tag = f"py3-none-manylinux_{major}_{minor}_{platform.machine()}"
    info = f"longshore-{version}.dist-info"
    wheel = folder / f"longshore-{version}-{tag}.whl"
    files = [(f"longshore-{version}.data/data/{path.relative_to(tree)}", path.read_bytes(), path.stat().st_mode)
             for path in sorted(tree.rglob("*")) if path.is_file()]
    files += [(f"{info}/METADATA", METADATA.format(version=version).encode(), 0o100644),
              (f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: longshore\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), 0o100644)]
    record = [f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}"
              for name, data, _ in files]
    files.append((f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,", ""]).encode(), 0o100644))
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data, mode in files:
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = mode << 16
            out.writestr(entry, data)
    return wheel


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    tree, version, folder = Path(sys.argv[1]).resolve(), sys.argv[2], Path(sys.argv[3])
    if not shutil.which("patchelf"):
        sys.exit("wheel: patchelf is needed: make wheel installs it")
    # pip keeps its own list of files.
    (tree / "share/longshore/installed").unlink(missing_ok=True)
    gather_libraries(tree)
    folder.mkdir(parents=True, exist_ok=True)
    print(os.path.relpath(pack(tree, version, folder)))


if __name__ == "__main__":
    main()
