"""Let a torch that was built for CUDA be imported without CUDA's libraries, which are gigabytes.

The registry has most releases of torch only in that build. Its part for the CPU is whole, and the loader still wants
each library of CUDA that it names. This script writes them into the environment that runs it: each has the names that
torch asks for, and every function returns an error, as it would on a machine without a GPU.

    python -m pip install --no-deps torch==2.6.0 nvidia-cuda-runtime-cu12 nvidia-cuda-cupti-cu12
    python scripts/torch_without_cuda.py
"""

from __future__ import annotations

import re
import subprocess
import sysconfig
import tempfile
from collections import defaultdict
from pathlib import Path


def main() -> None:
    """Write the libraries of CUDA that are missing beside those of torch."""
    packages = Path(sysconfig.get_paths()["purelib"])
    torch = packages / "torch" / "lib"
    built = [file for file in torch.glob("*.so*") if not file.name.startswith("libcu")]
    needed = {name for file in built for name in re.findall(r"\(NEEDED\).*\[(.*)\]", told("readelf", "-d", file))}
    present = {file.name for file in packages.glob("nvidia/**/*.so*")}
    missing = sorted(name for name in needed - present if re.match(r"lib(cu|nv|nccl)", name))
    names, versions = defaultdict(set), defaultdict(set)
    for file in built:
        for name, version in re.findall(r" U (\w+)(?:@(\S+))?", told("nm", "-D", "--undefined-only", file)):
            names[version].add(name)
        for library, rest in re.findall(r"File: (\S+)(.*(?:\n +0x\w+: +Name.*)*)", told("readelf", "-V", file)):
            versions[library].update(re.findall(r"Name: (\S+)", rest))
    unversioned = {name for name in names[""] if re.match(r"(cu|nccl|nvrtc|nvshmem)[a-zA-Z_]", name)}
    for library in missing:
        write(torch / library, {version: names[version] for version in versions[library]} or {"": unversioned})
    print(f"{len(missing)} libraries without content: {', '.join(missing)}")


def told(*command: object) -> str:
    """Return the output of a command."""
    return subprocess.run([str(one) for one in command], capture_output=True, text=True, check=True).stdout


def write(library: Path, names: dict[str, set[str]]) -> None:
    """Compile a library whose functions all return 1; `names` has them by their version."""
    with tempfile.TemporaryDirectory() as folder:
        code, script = Path(folder, "code.c"), Path(folder, "versions")
        code.write_text("".join(f"int {name}(void) {{ return 1; }}\n" for name in sorted(set().union(*names.values()))))
        script.write_text(
            "".join(
                f"{version} {{ global: {'; '.join(['*'] if len(names) == 1 else sorted(each))}; }};\n"
                for version, each in names.items()
            )
        )
        linked = [f"-Wl,-soname,{library.name}", f"-Wl,--version-script={script}"]
        told("gcc", "-shared", "-fPIC", "-w", "-fno-builtin", code, *linked, "-o", library)


if __name__ == "__main__":
    main()
