"""Compile the exported kernels ahead of time into one shared library, which needs neither numba nor Python.

``python -m tools.kernel_library`` builds the library of this platform beside ``stateproc/codec/machine.py``, from where
``codec/native/library.py`` loads it. Each exported kernel gets a function ``int32 symbol(int64 *words)``, see
``codec/native/jit.py``. numba compiles all of them to LLVM modules; these are linked, reduced to what the exported
functions need, and become one object file for each platform, which zig's linker turns into the library. Neither step
depends on the platform that it runs on.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import groupby
from pathlib import Path
from typing import Any

from stateproc.codec.native import jit
from stateproc.codec.native.cache import CACHE_DIR_VARIABLE
from stateproc.codec.native.exports import exported_kernels, kernel_modules
from stateproc.codec.native.file_names import machine_name
from stateproc.codec.native.jit import ArrayType, Signature
from stateproc.codec.native.library import (
    KERNELS_VARIABLE,
    PACKAGE,
    SOURCES_SYMBOL,
    TARGET_MACHINE_VARIABLE,
    sources_text,
)
from tools.kernel_platforms import PLATFORMS, V2, Platform, this_platform

BUILT = Path(os.environ.get("STATEPROC_BUILT_KERNELS") or Path(".cache", "kernels"))
"""Where libraries that were built before are looked for; ``make wheels`` keeps those of all platforms there."""
_MEMORY_FUNCTIONS = Path(__file__).with_name("memory_functions.ll")

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
        text = _COUNTING.sub(r"\1\n  ret void\n}", text)
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


def linked(modules: list[str], symbols: list[str], sources: str, platform: Platform) -> bytes:
    """Link LLVM modules, drop all that no exported function needs, and return an object file for ``platform``."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(platform.triple).create_target_machine(
        cpu=platform.cpu, opt=3, reloc="pic", codemodel="default"
    )
    content = sources.encode() + b"\0"
    escaped = "".join(f"\\{byte:02x}" for byte in content)
    whole = llvm.parse_assembly(f'@{SOURCES_SYMBOL} = constant [{len(content)} x i8] c"{escaped}"\n{_UNUSED}')
    for module in [*modules, _MEMORY_FUNCTIONS.read_text("utf-8")]:
        whole.link_in(llvm.parse_assembly(module))
    whole.triple, whole.data_layout = platform.triple, str(target.target_data)
    exported = {*symbols, SOURCES_SYMBOL}
    for item in [*whole.functions, *whole.global_variables]:
        # What is hidden stays: LLVM may call it where no module does.
        if item.name not in exported and not item.is_declaration and item.visibility.name != "hidden":
            item.linkage = "internal"
        elif item.name in exported and platform.system == "win32":
            item.storage_class = "dllexport"
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(whole, llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=0)))
    _check_self_contained(whole)
    return bytes(target.emit_object(whole))


def _check_self_contained(module: Any) -> None:
    names = {item.name for item in [*module.functions, *module.global_variables] if item.is_declaration}
    missing = sorted(name for name in names if not name.startswith("llvm."))
    if missing:
        raise CannotBuild(f"the kernels need {', '.join(missing)}: functions that are not in the library itself")


def link_shared(object_file: Path, target: Path, platform: Platform) -> None:
    """Turn an object file into a shared library."""
    # No other library is linked with it.
    linking = ["-shared", "-nostdlib", *platform.linker_flags, "-o", str(target), str(object_file)]
    command = [*(platform.linker() or []), *linking]
    # Its caches, too, belong to the folder that is removed: there may be no home directory.
    caches = dict.fromkeys(("ZIG_LOCAL_CACHE_DIR", "ZIG_GLOBAL_CACHE_DIR"), str(object_file.with_name("zig")))
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **caches})
    if done.returncode:
        raise CannotBuild(f"{shlex.join(command)} has failed: {done.stderr.strip()}")


def build(folder: Path, platforms: list[Platform]) -> None:
    """Build the libraries of platforms of one machine in ``folder``."""
    if importlib.util.find_spec("numba") is None:
        raise CannotBuild("numba is not installed where the library is built")
    if any(platform.linker() is None for platform in platforms):
        raise CannotBuild("there is no linker: ziglang is not installed where the library is built")
    os.environ[TARGET_MACHINE_VARIABLE] = platforms[0].machine  # before modules with kernels are imported
    # Read before anything is compiled: what is edited meanwhile makes the library stale.
    sources = sources_text(kernel_modules())
    kernels = exported_kernels()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.update(
            {
                CACHE_DIR_VARIABLE: scratch,
                KERNELS_VARIABLE: "numba",
                # Of the machine that compiles: LLVM modules for others are made of the same ones.
                "NUMBA_CPU_NAME": V2 if machine_name() == "x86_64" else "generic",
                "NUMBA_CPU_FEATURES": "",
            }
        )
        modules = compiled_modules(kernels)
        for platform in platforms:
            path, target = Path(scratch, f"{platform.name}.o"), folder / platform.library
            path.write_bytes(linked(modules, list(kernels), sources, platform))
            # Replaced in one step: processes may have the old one open.
            beside = target.with_name(f".{target.name}.{os.getpid()}")
            try:
                link_shared(path, beside, platform)
                beside.replace(target)
            finally:
                beside.unlink(missing_ok=True)


def is_current(path: Path) -> bool:
    """Whether there is a library, of whatever platform, that was built of these sources."""
    return path.exists() and sources_text(kernel_modules()).encode() in path.read_bytes()


def reused(platform: Platform, folder: Path) -> bool:
    """Whether the library in ``folder`` fits the sources, or one that was built before, which is copied there."""
    target = folder / platform.library
    for path in (target, PACKAGE / "codec" / target.name, BUILT / target.name):
        if is_current(path):
            if not (target.exists() and path.samefile(target)):
                shutil.copyfile(path, target)
            return True
    return False


def _of_this_process(platforms: list[Platform], folder: Path) -> None:
    """Build the libraries of one machine here, those of further machines in a process for each."""
    first, *others = (list(group) for _, group in groupby(platforms, lambda platform: platform.machine))
    for group in others:
        command = [sys.executable, "-m", "tools.kernel_library", "--required", "--folder", str(folder), "--platform"]
        if subprocess.run([*command, *(platform.name for platform in group)]).returncode:
            raise CannotBuild(f"that of {group[0].machine} could not be built")
    build(folder, first)


def main() -> int:
    """Build; the exit status is 0 also where something is missing, unless ``--required`` is given."""
    parser = argparse.ArgumentParser(description="Compile the kernels into a shared library.")
    parser.add_argument(
        "--platform", nargs="+", metavar="NAME", default=[this_platform()], help=f"all, or: {', '.join(PLATFORMS)}"
    )
    parser.add_argument("--folder", type=Path, default=PACKAGE / "codec", help="default: in the package")
    parser.add_argument("--reuse", action="store_true", help="build nothing where there is one that fits the sources")
    parser.add_argument("--required", action="store_true", help="fail where the library cannot be built")
    arguments = parser.parse_args()
    started = time.monotonic()
    try:
        platforms = _chosen(arguments.platform)
        if arguments.reuse:
            platforms = [platform for platform in platforms if not reused(platform, arguments.folder)]
        if platforms:
            print("building the kernel library, about 40 s", flush=True)
            _of_this_process(platforms, arguments.folder)
    except CannotBuild as error:
        print(
            f"no kernel library: {error}; numba compiles kernels at their first call instead, for half a minute: "
            "see docs/install.md",
            file=sys.stderr,
        )
        return 1 if arguments.required else 0
    for platform in platforms:
        target = arguments.folder / platform.library
        print(f"{target}: {target.stat().st_size:,} bytes in {time.monotonic() - started:.0f} s")
    return 0


def _chosen(names: list[str]) -> list[Platform]:
    if names == ["all"]:
        names = list(PLATFORMS)
    unknown = sorted(set(names) - PLATFORMS.keys())
    if unknown:
        raise CannotBuild(f"there are libraries for {', '.join(PLATFORMS)}, not for {', '.join(unknown)}")
    return sorted((PLATFORMS[name] for name in names), key=lambda platform: platform.machine)


if __name__ == "__main__":
    sys.exit(main())
