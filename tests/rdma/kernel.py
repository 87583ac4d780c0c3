"""A Linux kernel with Soft-RoCE for guest.py: Debian's, downloaded once and unpacked below the build folder.

Nothing is installed, and this machine never boots it.
"""

import contextlib
import fcntl
import lzma
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

PACKAGE = "linux-image-amd64"  # depends on the current one; the "cloud" flavour has no RDMA
MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay", "dummy", "virtio_net", "crc32_generic", "rdma_rxe",
           "ib_uverbs", "rdma_ucm")
LIMIT_S = 240  # for each step of the download


class Missing(Exception):
    """There is no kernel and none can be had; the text says why."""


def apt(*words, folder=None):
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    except FileNotFoundError as error:
        raise Missing(f"{words[0]} is missing: only Debian's kernel is known here") from error
    except subprocess.TimeoutExpired as error:
        raise Missing(f"{' '.join(words)}: not done after {LIMIT_S} s") from error
    if done.returncode != 0:
        raise Missing(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def download(folder):
    found = re.search(r"Depends: (linux-image-\S+)", apt("apt-cache", "depends", PACKAGE))
    if not found:
        raise Missing(f"apt-cache knows no {PACKAGE}; 'apt-get update' brings the lists of packages up to date")
    # As the user who asks: apt's own may not write into the folder.
    apt("apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", found[1], folder=folder)
    return next(folder.glob("*.deb"))


def download_or_update(folder):
    """The package's file. The lists of packages may be missing, or older than what the archive still has."""
    try:
        return download(folder)
    except Missing:
        apt("apt-get", "update", "-q")
        return download(folder)


def needed(modules):
    """The files of MODULES and of what they depend on, in the order in which they can be loaded."""
    files = {path.stem.replace("-", "_"): path for path in modules.rglob("*.ko")}
    order = []

    def add(name):
        if name not in files:
            raise Missing(f"the kernel has no module {name}")
        if files[name] in order:
            return
        depends = re.search(rb"\0depends=([^\0]*)\0", files[name].read_bytes())
        for other in depends[1].decode().split(",") if depends else ():
            if other:
                add(other.replace("-", "_"))
        order.append(files[name])

    for name in MODULES:
        add(name)
    return order


def decompressed(image):
    """The kernel that a bzImage holds: the emulator would take seconds to unpack it. As it is, if that is not xz."""
    start = image.find(b"\xfd7zXZ\0")
    if start >= 0:
        with contextlib.suppress(lzma.LZMAError):
            unpacked = lzma.LZMADecompressor().decompress(image[start:])
            if unpacked.startswith(b"\x7fELF"):
                return unpacked
    return image


def unpack(package, folder):
    """Leaves in `folder` the kernel and the needed modules, numbered in their order."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as whole:
        subprocess.run(["dpkg-deb", "-x", package, whole], check=True, timeout=LIMIT_S)
        (folder / "kernel").write_bytes(decompressed(next(Path(whole).glob("boot/vmlinuz-*")).read_bytes()))
        (folder / "modules").mkdir()
        for i, path in enumerate(needed(Path(whole) / "lib/modules")):
            shutil.copy(path, folder / "modules" / f"{i:02}-{path.name}")


def kernel(cache):
    """The folder below `cache` with `kernel` and `modules/`; it is made if there is none. Raises Missing."""
    cache.mkdir(parents=True, exist_ok=True)
    ready = cache / "kernel-with-rxe"
    wanted = " ".join(MODULES)
    with open(cache / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (ready / "complete").exists() and (ready / "complete").read_text(encoding="ascii") == wanted:
            return ready
        shutil.rmtree(ready, ignore_errors=True)
        ready.mkdir()
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            unpack(download_or_update(Path(folder)), ready)
        (ready / "complete").write_text(wanted, encoding="ascii")
    return ready
