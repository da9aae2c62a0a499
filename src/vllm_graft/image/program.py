# A part of this program runs where the rest of it is not: it is sent as text, its files as modules under their own names, so
# that they are the same files here and there.
"""Files of this program as a program of their own."""

from collections.abc import Mapping

_BEGIN = """\
import sys, types
for name in ({packages}):
    sys.modules[name] = package = types.ModuleType(name)
    package.__path__ = []
for name, text in {modules}:
    sys.modules[name] = module = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
"""


def as_program(modules: Mapping[str, str], call: str) -> str:
    """Give one text that has these modules, and then does something.

    ``modules``: full name → source, each after those that it imports.
    """
    packages = dict.fromkeys(
        name.rsplit(".", count)[0] for name in modules for count in range(name.count("."), 0, -1)
    )
    listed = ", ".join(repr(each) for each in packages)
    return _BEGIN.format(packages=f"{listed},", modules=repr(tuple(modules.items()))) + call
