"""Compile the exported kernels ahead of time into one shared library, which needs neither numba nor Python.

``python -m tools.kernel_library`` builds the library of this machine beside ``stateproc/codec/native/library.py``,
which loads it. Each exported kernel gets a function ``int32 symbol(int64 *words)``, see ``codec/native/jit.py``.
numba compiles all of them to LLVM modules; these are linked, reduced to what the exported functions need, and given to
the C compiler's linker as one object file.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from stateproc.codec.native import jit
from stateproc.codec.native.cache import CACHE_DIR_VARIABLE
from stateproc.codec.native.exports import exported_kernels, kernel_modules
from stateproc.codec.native.jit import ArrayType, Signature
from stateproc.codec.native.library import (
    KERNELS_VARIABLE,
    PACKAGE,
    SOURCES_SYMBOL,
    TARGET_MACHINE_VARIABLE,
    LibraryUnusable,
    library_name,
    open_library,
    sources_text,
)

CPUS = {"x86_64": "x86-64-v2", "aarch64": "generic"}
"""Machines that a library can be built for, and the oldest CPU of each that it runs on."""
_TRIPLES = {"x86_64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-unknown-linux-gnu"}
_FROM_LIBC = {"memcpy", "memmove", "memset"}
"""What the linked code may call: every C library has it, so that the library need not be linked with a certain one."""

_UNUSED = "define void @NRT_MemInfo_call_dtor(ptr %info) {\n  ret void\n}\n"
"""What numba's arrays call when nothing refers to their memory any more. These kernels allocate no memory."""

_COUNTING = re.compile(r"^(define [^@]*@NRT_(?:incref|decref)\([^{]*\{)\n.*?^\}", re.M | re.S)


class CannotBuild(Exception):
    """Something that building needs is missing; the message says what."""


def wrapper_source(signature: Signature) -> str:
    """Return a Python function that calls ``kernel`` with arguments taken from words at an address."""
    lines, at = ["def call_with_words(words):"], 0
    for k, kind in enumerate(signature.arguments):
        word = f"load_i64(words + {8 * at})"
        if isinstance(kind, ArrayType):
            shape = "".join(f"load_i64(words + {8 * (at + 1 + axis)}), " for axis in range(kind.ndim))
            dtype = "np.bool_" if kind.dtype == "bool" else f"np.{kind.dtype}"
            lines.append(f"    a{k} = carray(pointer({word}), ({shape}), {dtype})")
            at += 1 + kind.ndim
        else:
            lines.append(f"    a{k} = {word}{' != 0' if kind is bool else ''}")
            at += 1
    call = f"kernel({', '.join(f'a{k}' for k in range(len(signature.arguments)))})"
    lines.append(f"    results = {call}" if signature.results else f"    {call}")
    for k in range(len(signature.results)):
        lines.append(f"    store_64(words + {8 * k}, np.int64(results{f'[{k}]' if signature.is_tuple else ''}))")
    return "\n".join([*lines, "    return 0", ""])


def compiled_modules(kernels: dict[str, jit.Kernel]) -> list[str]:
    """Compile each kernel, with all that it calls; return LLVM modules that define the functions of the library."""
    import numba
    import numpy as np
    from llvmlite import ir
    from numba import carray, types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def pointer(_context: Any, _address: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

        return types.voidptr(types.int64), generate

    modules = []
    for symbol, kernel in kernels.items():
        names = {"np": np, "carray": carray, "pointer": pointer, "kernel": kernel.dispatcher}
        names.update(load_i64=jit.load_i64, store_64=jit.store_64)
        exec(wrapper_source(kernel.signature), names)
        wrapper = numba.njit("int64(int64)")(names["call_with_words"])
        (text,) = wrapper.inspect_llvm().values()
        native = re.search(r"^define [^@]*i32 @(_ZN\w*call_with_words\w*)\(", text, re.M)
        if native is None:
            raise CannotBuild(f"numba {numba.__version__} has compiled {symbol} to a function that is not recognized")
        # Of each module's own copies: they count references to memory that numba allocates, which kernels do not.
        text = re.sub(
            r"^(define [^@]*@NRT_(?:incref|decref)\([^{]*\{)\n.*?^\}", r"\1\n  ret void\n}", text, flags=re.M | re.S
        )
        modules.append(text + _entry(symbol, native[1]))
    return modules


def _entry(symbol: str, native: str) -> str:
    """Return the function of the library: numba's own has places for the result and an exception as arguments."""
    return f"""
define i32 @{symbol}(ptr %words) {{
  %result = alloca i64
  %exception = alloca ptr
  %address = ptrtoint ptr %words to i64
  %status = call i32 @{native}(ptr %result, ptr %exception, i64 %address)
  ret i32 %status
}}
"""


def linked(modules: list[str], symbols: list[str], sources: str, machine: str) -> bytes:
    """Link LLVM modules, drop all that no exported function needs, and return an object file for ``machine``."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = _TRIPLES[machine]
    cpu, relocation = CPUS[machine], "pic"
    target = llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, opt=3, reloc=relocation, codemodel="default"
    )
    content = sources.encode() + b"\0"
    escaped = "".join(f"\\{byte:02x}" for byte in content)
    whole = llvm.parse_assembly(f'@{SOURCES_SYMBOL} = constant [{len(content)} x i8] c"{escaped}"\n{_UNUSED}')
    for module in modules:
        whole.link_in(llvm.parse_assembly(module))
    whole.triple, whole.data_layout = triple, str(target.target_data)
    kept = {*symbols, SOURCES_SYMBOL}
    for item in [*whole.functions, *whole.global_variables]:
        if item.name not in kept and not item.is_declaration:
            item.linkage = "internal"
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(whole, llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=0)))
    _check_self_contained(whole)
    return bytes(target.emit_object(whole))


def _check_self_contained(module: Any) -> None:
    names = {item.name for item in [*module.functions, *module.global_variables] if item.is_declaration}
    missing = sorted(name for name in names - _FROM_LIBC if not name.startswith("llvm."))
    if missing:
        raise CannotBuild(f"the kernels need {', '.join(missing)}: functions that not every C library has")


def link_shared(object_file: Path, target: Path, machine: str) -> None:
    """Turn an object file into a shared library with the C compiler's linker."""
    compiler = c_compiler(machine)
    # Without any library: the few functions of libc are there in every process, whichever libc it has.
    command = [*compiler, "-shared", "-nostdlib", "-Wl,--build-id=none", "-Wl,-s", "-o", str(target), str(object_file)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise CannotBuild(f"{shlex.join(command)} has failed: {done.stderr.strip()}")


def c_compiler(machine: str) -> list[str]:
    """Return the command of a C compiler that links for ``machine``."""
    own = machine == platform.machine()
    names = [os.environ["CC"]] if own and os.environ.get("CC") else []
    names += ["cc", "gcc", "clang"] if own else []
    names.append(f"{machine}-linux-gnu-gcc")
    for name in names:
        command = shlex.split(name)
        if shutil.which(command[0]):
            return command
    raise CannotBuild(f"there is no C compiler for {machine} ({', '.join(names)})")


def build(target: Path, machine: str) -> None:
    """Build the library of ``machine`` as ``target``."""
    if machine not in CPUS or sys.platform != "linux":
        raise CannotBuild(f"libraries are built on Linux, for {' and '.join(CPUS)}, not for {sys.platform} {machine}")
    c_compiler(machine)
    if importlib.util.find_spec("numba") is None:
        raise CannotBuild("numba is not installed")
    os.environ[TARGET_MACHINE_VARIABLE] = machine  # before modules with kernels are imported
    # Read before anything is compiled: what is edited meanwhile makes the library stale.
    sources = sources_text(kernel_modules())
    kernels = exported_kernels()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(
            {
                CACHE_DIR_VARIABLE: folder,
                KERNELS_VARIABLE: "numba",
                "NUMBA_CPU_NAME": CPUS["x86_64"],
                "NUMBA_CPU_FEATURES": "",
            }
        )
        modules = compiled_modules(kernels)
        path = Path(folder, "kernels.o")
        path.write_bytes(linked(modules, list(kernels), sources, machine))
        # Replaced in one step: processes may have the old one open.
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            link_shared(path, beside, machine)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)


def is_current(path: Path) -> bool:
    """Whether there is a library of this machine that was built of these sources."""
    try:
        return open_library(path).sources == sources_text(kernel_modules())
    except LibraryUnusable:
        return False


def main() -> int:
    """Build; the exit status is 0 also where a compiler is missing, unless ``--required`` is given."""
    parser = argparse.ArgumentParser(description="Compile the kernels into a shared library.")
    parser.add_argument("--machine", default=platform.machine(), help="x86_64 or aarch64; default: this one")
    parser.add_argument("--folder", type=Path, default=PACKAGE / "codec", help="default: in the package")
    parser.add_argument("--reuse", action="store_true", help="copy the library in the package, if it fits the sources")
    parser.add_argument("--required", action="store_true", help="fail where the library cannot be built")
    arguments = parser.parse_args()
    target = arguments.folder / library_name(arguments.machine)
    if arguments.reuse and is_current(PACKAGE / "codec" / target.name):
        shutil.copyfile(PACKAGE / "codec" / target.name, target)
        return 0
    print("building the kernel library, about 40 s", flush=True)
    started = time.monotonic()
    try:
        build(target, arguments.machine)
    except CannotBuild as error:
        print(f"no kernel library: {error}; numba compiles kernels at their first call instead", file=sys.stderr)
        return 1 if arguments.required else 0
    print(f"{target}: {target.stat().st_size:,} bytes in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
