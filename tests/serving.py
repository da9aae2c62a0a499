"""Images that serve without vLLM: the Python of this machine, and a stub in place of `vllm`."""

import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from imaging import Image, Item, folder, layer

STUB = Path(__file__).with_name("stub_vllm.py")
LEFT_OUT = {
    *("test", "idlelib", "tkinter", "ensurepip", "lib2to3", "pydoc_data", "turtledemo"),
    *("site-packages", "dist-packages", "__pycache__", "distutils", "unittest", "asyncio"),
    *("sqlite3", "dbm", "curses", "xml", "xmlrpc", "wsgiref", "multiprocessing", "venv"),
}
NATIVE = {
    *("_socket", "select", "_json", "math", "_struct", "array", "binascii", "_datetime", "_random"),
    *("_bisect", "_heapq", "_queue", "_sha256", "_sha2", "_sha1", "_sha512", "_md5", "_blake2"),
    *("_opcode", "fcntl", "_contextvars", "unicodedata", "_zoneinfo", "zlib", "_posixsubprocess"),
}
"""Modules in libraries of their own that the stub imports by some way."""


@functools.cache
def python_layer() -> bytes:
    """Give the interpreter that runs this, with the libraries that it needs, at their own places."""
    program = Path(os.path.realpath(sys.executable))
    library = Path(os.__file__).parent
    places = {program, *needed(program)}
    for root, folders, names in os.walk(library):
        folders[:] = [
            name for name in folders if name not in LEFT_OUT and not name.startswith("config-")
        ]
        places |= {Path(root, name) for name in names if name.endswith(".py")}
        places |= {Path(root, name) for name in names if name.partition(".")[0] in NATIVE}
    for place in [each for each in places if each.suffix == ".so"]:
        places |= set(needed(place))
    items = [folder("tmp", 0o1777)]
    items += [
        Item(path=str(place)[1:], content=place.read_bytes(), mode=place.stat().st_mode & 0o777)
        for place in sorted(places)
    ]
    return layer(items)


def needed(program: Path) -> Iterator[Path]:
    """Give the libraries that a program is linked with."""
    told = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    for line in told.splitlines():
        if (found := re.search(r"(/\S+) \(0x", line)) and Path(found[1]).exists():
            yield Path(found[1])


def stub_image(**more: str) -> Image:
    """Give an image whose `vllm` is the stub; its entrypoint would end at once."""
    program = os.path.realpath(sys.executable)
    script = f"#!{program}\n{STUB.read_text()}".encode()
    home = str(Path(os.__file__).parents[2])
    return Image(
        layers=[
            python_layer(),
            layer([Item(path="usr/local/bin/vllm", content=script, mode=0o755)]),
        ],
        settings={
            "Env": [
                "PATH=/usr/local/bin:/usr/bin:/bin",
                f"PYTHONHOME={home}",
                *(f"{k}={v}" for k, v in more.items()),
            ],
            "Entrypoint": ["/no-such-entrypoint"],
            "Healthcheck": {"Test": ["CMD", "/no-such-check"]},
        },
    )
