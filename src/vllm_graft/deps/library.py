# A name that a grafted module imports from another distribution must be there when the module is imported. Whether it is,
# is read from that distribution's text; where the text does not tell (a module that makes its names as it runs), the
# answer is that nobody told, never a guess. transformers hides its names behind lazy packages, which have forms of
# their own here.
"""What the modules of a distribution bind, read from its text."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from vllm_graft.link.scopes import ONLY_TYPES, flatten, target_names
from vllm_graft.link.syntax import parse_source_text

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

_HOPS = 12
"""Re-exports that are followed before a circle is assumed."""
_ALL = re.compile(r"^__all__\s*(?::[^=\n]+)?=\s*[\[(](.*?)[\])]", re.MULTILINE | re.DOTALL)
_WORD = re.compile(r"""["']([A-Za-z_]\w*)["']""")
# Source: transformers 4.56 to 5.24, utils/import_utils.py `create_import_structure_from_path`: what is decorated with
# `requires` or `export` is exported beside `__all__`.
_EXPORTED = re.compile(r"^@(?:requires|export)\(.*\)\n(?:@.*\n)*(?:class|def) (\w+)", re.MULTILINE)
_ALIAS = re.compile(
    r"""(?:alias\(f"\{__name__\}\.|^ {8}")(\w+)"(?:, "\.|: ")(\w+)"[,)]""", re.MULTILINE
)
_OLD_PROCESSORS = re.compile(r"\{_module\}_fast|\(\\w\+\)_fast")
_STRUCTURE = "_import_structure"
_OWN_FOLDER = "define_import_structure("
_MODELS = re.compile(r"""define_import_structure\(Path\(__file__\)\.parent / ["'](\w+)["']""")


class Text(Protocol):
    """The text files of a site-packages; paths are POSIX and relative to it."""

    def read(self, path: str) -> str | None:
        """Give a file's text; None where there is none."""
        ...

    def names(self, folder: str) -> Sequence[str]:
        """Give what lies in a folder, sorted; nothing where there is none."""
        ...


@dataclass(slots=True)
class _Module:
    name: str
    package: str
    """What relative imports start from."""
    bound: dict[str, ast.stmt | None] = field(default_factory=dict[str, "ast.stmt | None"])
    """Name → the statement that binds it; None where a lazy table does."""
    stars: list[str] = field(default_factory=list[str])
    exports: frozenset[str] | None = None
    """``__all__``, where it is written down."""
    makes_names: bool = False
    """Whether it can bind names that its text does not show."""
    has_old_names: bool = False
    """Whether it gives ``XFast`` for an ``X`` that has taken its place.

    Source: transformers 5.9 to 5.24, ``_LazyModule.__getattr__``: image processors.
    """


class Library:
    """One distribution's text; each module is read when it is first asked for."""

    def __init__(self, text: Text) -> None:
        """Read nothing yet."""
        self.text = text
        self._modules: dict[str, _Module | None] = {}
        self._folders: dict[str, frozenset[str]] = {}

    def binds(self, module: str, name: str = "") -> bool | None:
        """Tell whether ``from module import name`` finds something; None where the text does not tell.

        Without a name, whether the module is there.
        """
        return self._binds(module, name, _HOPS)

    def definition(self, module: str, name: str) -> tuple[str, Definition] | None:
        """Find where a function or class is defined: its module and its syntax."""
        for _ in range(_HOPS):
            known = self._module(module)
            if known is None:
                return None
            node = known.bound.get(name)
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    return module, node
                case ast.ImportFrom():
                    module, name = self._imported(known, node, name)
                case ast.Assign(value=ast.Name(id=other)):
                    name = other
                case _:
                    return self._through_star(known, name)
        return None

    def members(self, module: str, name: str) -> frozenset[str]:
        """Give what a class and its parents in this distribution define or assign through ``self``."""
        return frozenset(self._members(module, name, _HOPS))

    def _binds(self, module: str, name: str, hops: int) -> bool | None:
        known = self._module(module)
        if known is None:
            return None if self._is_binary(module) else self._old_name(module, name, hops)
        if not name or name in known.bound or self._has_module(f"{module}.{name}"):
            return True
        unsure = known.makes_names or not hops or (known.has_old_names and name.endswith("Fast"))
        for star in known.stars if hops else ():
            other = self._module(star)
            if other is not None and other.exports is not None and name not in other.exports:
                continue
            match self._binds(star, name, hops - 1):
                case True:
                    return True
                case None:
                    unsure = True
                case False:
                    pass
        return None if unsure else False

    def _through_star(self, known: _Module, name: str) -> tuple[str, Definition] | None:
        for star in known.stars:
            if self._binds(star, name, 2) and (found := self.definition(star, name)) is not None:
                return found
        return None

    def _members(self, module: str, name: str, hops: int) -> Iterator[str]:
        found = self.definition(module, name)
        if found is None or not hops:
            return
        home, node = found
        if not isinstance(node, ast.ClassDef):
            return
        for item in flatten(node.body):
            yield from _bound_by(item.node)
        for inner in ast.walk(node):
            if (
                isinstance(inner, ast.Attribute)
                and isinstance(inner.ctx, ast.Store)
                and isinstance(inner.value, ast.Name)
                and inner.value.id == "self"
            ):
                yield inner.attr
        for parent in node.bases:
            if isinstance(parent, ast.Name):
                yield from self._members(home, parent.id, hops - 1)

    def _imported(self, known: _Module, node: ast.ImportFrom, name: str) -> tuple[str, str]:
        alias = next(each for each in node.names if (each.asname or each.name) == name)
        return _absolute(known.package, node), alias.name

    # ── modules ───────────────────────────────────────────────────────────────────────────────────

    def _has_module(self, module: str) -> bool:
        path = module.replace(".", "/")
        folder, _, leaf = path.rpartition("/")
        beside = self.text.names(folder)
        return f"{leaf}.py" in beside or (leaf in beside and bool(self.text.names(path)))

    def _is_binary(self, module: str) -> bool:
        folder, _, leaf = module.replace(".", "/").rpartition("/")
        return any(
            name.startswith(f"{leaf}.") and name.endswith((".so", ".pyd"))
            for name in self.text.names(folder)
        )

    def _old_name(self, module: str, name: str, hops: int) -> bool | None:
        """Answer for a module without a file: the distribution may lead its old name to another module.

        Source: transformers 5.0 to 5.24, ``__init__.py``: ``_create_module_alias`` (5.0
        ``_create_tokenization_alias``), ``_LEGACY_MODULE_ALIASES`` from 5.21 on, and
        ``models.x.image_processing_x_fast`` by a pattern from 5.4 on, which gives ``XFast`` for ``X``.
        """
        top, _, rest = module.partition(".")
        spoken = self.text.read(f"{top}/__init__.py") or ""
        if (target := dict(_ALIAS.findall(spoken)).get(rest)) is not None and hops:
            return self._binds(f"{top}.{target}", name, hops - 1)
        if not (
            rest.startswith("models.") and rest.endswith("_fast") and _OLD_PROCESSORS.search(spoken)
        ):
            return None if rest and re.search(rf"\b{re.escape(rest)}\b", spoken) else False
        newer = module.removesuffix("_fast")
        if self._module(newer) is None:
            return False
        if name.endswith("Fast") and self._binds(newer, name.removesuffix("Fast"), hops - 1):
            return True
        return None if name else True

    def _module(self, module: str) -> _Module | None:
        if module not in self._modules:
            self._modules[module] = self._read(module)
        return self._modules[module]

    def _read(self, module: str) -> _Module | None:
        path = module.replace(".", "/")
        source = self.text.read(f"{path}.py")
        package = module.rpartition(".")[0]
        if source is None:
            source, package = self.text.read(f"{path}/__init__.py"), module
        if source is None:
            if not self.text.names(path):
                return None
            return _Module(name=module, package=module)
        try:
            tree = parse_source_text(source, path)
        except (SyntaxError, ValueError, RecursionError):
            return _Module(name=module, package=package, makes_names=True)
        lazy = "_LazyModule(" in source
        known = _Module(
            name=module, package=package, makes_names=not lazy and "globals()" in source
        )
        self._collect(known, tree, lazy=lazy)
        if lazy:
            self._collect_lazy(known, tree, source, path)
        return known

    def _collect(self, known: _Module, tree: ast.Module, *, lazy: bool) -> None:
        for item in flatten(tree.body):
            # A lazy package says what it has where only type checkers look.
            if item.guard == ONLY_TYPES and not lazy:
                continue
            match item.node:
                case ast.ImportFrom(names=[ast.alias(name="*")]):
                    known.stars.append(_absolute(known.package, item.node))
                case ast.FunctionDef(name="__getattr__"):
                    known.makes_names = True
                case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                    known.exports = frozenset(_strings(value))
                case _:
                    pass
            for name in _bound_by(item.node):
                known.bound[name] = item.node

    def _collect_lazy(self, known: _Module, tree: ast.Module, source: str, path: str) -> None:
        for name in _structured(tree):
            known.bound.setdefault(name, None)
        if (named := _MODELS.search(source)) is not None:
            folders = [f"{path}/{named[1]}"]
        else:
            folders = [path] if _OWN_FOLDER in source else []
        for folder in folders:
            for name in self._exported(folder):
                known.bound.setdefault(name, None)
        if folders:
            known.stars.clear()  # for type checkers only, and hundreds of files to read
            known.has_old_names = True

    def _exported(self, folder: str) -> frozenset[str]:
        """Give what the files of a folder, and of the folders in it, export."""
        if folder not in self._folders:
            found: set[str] = set()
            for name in self.text.names(folder):
                if name.endswith(".py"):
                    if name != "__init__.py":
                        source = self.text.read(f"{folder}/{name}") or ""
                        if (exports := _ALL.search(source)) is not None:
                            found.update(_WORD.findall(exports[1]))
                        found.update(_EXPORTED.findall(source))
                elif "." not in name and name != "__pycache__":
                    found.update(self._exported(f"{folder}/{name}"))
            self._folders[folder] = frozenset(found)
        return self._folders[folder]


def _absolute(package: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    kept = parts[: len(parts) - node.level + 1]
    return ".".join([*kept, *filter(None, [node.module])])


def _bound_by(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in names)
        case ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name for alias in names if alias.name != "*")
        case ast.Assign(targets=targets):
            for target in targets:
                yield from target_names(target)
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.For(target=target):
            yield from target_names(target)
        case _:
            pass


def _strings(node: ast.expr) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value


def _structured(tree: ast.Module) -> Iterator[str]:
    """Give the names in a package's table of what it imports lazily.

    Source: transformers 4.56 to 5.24, ``_import_structure``: module → names, assigned, extended, appended to.
    """
    for item in flatten(tree.body):
        match item.node:
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Dict() as table) if (
                target == _STRUCTURE
            ):
                yield from _strings(table)
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=target))], value=value) if (
                target == _STRUCTURE
            ):
                yield from _strings(value)
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Subscript(value=ast.Name(id=target))),
                    args=[argument],
                )
            ) if target == _STRUCTURE:
                yield from _strings(argument)
            case _:
                pass
