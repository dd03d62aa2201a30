"""Compile the kernels in place: `python build_kernels.py`, or make kernels; installing runs it too.

The compiler is $CC, or cc, gcc or clang, or the one in the wheel `ziglang`. Arithmetic stays as it is written: no
fused multiply-add, no reordering, integers of 64 bits that wrap.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

from topdown.resources import KERNELS, source_sha256

READABLE = "-DCYTHON_COMPRESS_STRINGS=0"  # the hash of the source is looked for in the compiled file
FLAGS = ("-O3", "-ffp-contract=off", "-fwrapv", "-fPIC", "-shared", "-w", READABLE)
ON_MACOS = ("-undefined", "dynamic_lookup")
DIRECTIVES = {
    "language_level": 3,
    "infer_types": True,
    "boundscheck": True,  # a wrong shape is an error, never a write elsewhere: a tenth of a tree release
    "wraparound": False,
    "initializedcheck": False,
}
AS_C = (
    (r"^from topdown.arrays import ", "import cython; from topdown.arrays cimport "),
    (r"^from math import ", "from libc.math cimport "),
    (r"^([A-Z_]+): float = ", r"cdef double \1 = "),
    (r"^([A-Z_]+): Whole = ", r"cdef long long \1 = "),
    (r"\n\ndef ", r"\n@cython.ccall\ndef "),
    (r"\n\n@dataclass", r"\n@cython.cclass\n@cython.dataclasses.dataclass"),
    (r"\n\nclass ", r"\n@cython.cclass\nclass "),
    (r"\bint\(", r"<long long>("),
    (r"\bfloat\(", r"<double>("),
)
"""What is written in a kernel, and what Cython reads, on the same lines: C types, constants, functions and records."""
LAST_LINES = (
    "\nfrom topdown.resources import run_source_if_changed\nrun_source_if_changed(__name__, __file__, {!r})\n"
)


def find_compiler() -> list[str] | None:
    """Return the command of a C compiler, or None."""
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    return [sys.executable, "-m", "ziglang", "cc"] if find_spec("ziglang") else None


def compiled_file(root: Path, kernel: str) -> Path:
    """Return where the compiled file of a kernel is, for this Python."""
    return root / f"{kernel.replace('.', '/')}{sysconfig.get_config_var('EXT_SUFFIX')}"


def build(root: Path, kernels: Sequence[str] = KERNELS, *, again: bool = True) -> list[Path]:
    """Compile kernels below `root`, the folder with the packages, and return their files.

    Args:
        kernels: modules. again: also those that were compiled from the source as it is.

    Raises:
        RuntimeError: there is no compiler, or it failed; files of before are then as they were.
    """
    compiler = find_compiler()
    if compiler is None:
        raise RuntimeError(
            "there is no C compiler: set CC, or install gcc, clang or the Python package ziglang"
        )
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        changed = [kernel for kernel in kernels if again or not _is_current(root, kernel)]
        written = [_write_c(root, kernel, folder) for kernel in changed]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            built = list(pool.map(lambda c_file: _compile(compiler, c_file), written))
        for made, kernel in zip(built, changed, strict=True):
            place = compiled_file(root, kernel)
            beside = place.with_name(f"{place.name}.tmp")
            shutil.copyfile(made, beside)
            beside.replace(place)  # a process that has the old file open keeps it
    return [compiled_file(root, kernel) for kernel in kernels]


def _is_current(root: Path, kernel: str) -> bool:
    """Tell whether the compiled file holds the hash of the source as it is."""
    place, source = compiled_file(root, kernel), root / f"{kernel.replace('.', '/')}.py"
    return place.is_file() and source_sha256(source).encode() in place.read_bytes()


def _write_c(root: Path, kernel: str, folder: Path) -> Path:
    """Translate one kernel to C, with C types for the names of `topdown.arrays` and the hash of its source."""
    from Cython.Compiler.Main import CompilationOptions, compile_single

    source = root / f"{kernel.replace('.', '/')}.py"
    text = source.read_text(encoding="utf-8")
    for written, read in AS_C:
        text = re.sub(written, read, text, flags=re.MULTILINE)
    copy = folder / f"{kernel.replace('.', '/')}.pyx"
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(text + LAST_LINES.format(source_sha256(source)), encoding="utf-8")
    options = CompilationOptions(
        compiler_directives=DIRECTIVES, include_path=[str(root)], output_file=str(copy.with_suffix(".c"))
    )
    result = compile_single(str(copy), options, full_module_name=kernel)
    if result.num_errors:
        raise RuntimeError(f"{source} cannot be compiled; what is wrong is said above")
    return Path(str(result.c_file))


def _compile(compiler: list[str], c_file: Path) -> Path:
    made = c_file.with_suffix(".so")
    flags = FLAGS + (ON_MACOS if sys.platform == "darwin" else ())
    include = sysconfig.get_path("include")
    done = subprocess.run(
        [*compiler, *flags, f"-I{include}", str(c_file), "-o", str(made)],
        env=os.environ | {"ZIG_GLOBAL_CACHE_DIR": str(c_file.parent / "zig")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{shlex.join(compiler)} failed on {c_file.stem}:\n{done.stderr[-2000:]}")
    return made


if __name__ == "__main__":
    try:
        build(Path(__file__).resolve().parent, again=False)
    except (RuntimeError, OSError, ImportError) as error:
        sys.exit(f"kernels not compiled: {error}")
