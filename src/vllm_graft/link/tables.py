# Reading Python tables as data: dicts of names, lists of strings, Literals, keyword calls, enum bodies.
# Nothing here knows vLLM; link/vllm.py says which variable of which file is which table.
"""Literal tables in Python source, read from the syntax tree and never by importing."""

import ast
from collections.abc import Iterator, Mapping

from vllm_graft.errors import SourceError
from vllm_graft.link.syntax import parse_source_text
from vllm_graft.values.install import Files


class SourceTrees:
    """The syntax trees of one install, each file parsed at most once."""

    def __init__(self, files: Files) -> None:
        """Parse nothing yet."""
        self.files = files
        self._trees: dict[str, ast.Module] = {}

    def tree(self, path: str) -> ast.Module | None:
        """Give the tree of one file, None where there is no such file.

        Raises:
            SourceError: the file is no valid Python.
        """
        if path not in self._trees:
            if path not in self.files:
                return None
            try:
                self._trees[path] = parse_source_text(self.files.read(path), path)
            except (SyntaxError, ValueError, RecursionError) as error:
                message = f"{path} is not valid Python: {error}"
                raise SourceError(
                    message,
                    remedy="Use an install that imports, or repair this file.",
                    code="E305",
                ) from error
        return self._trees[path]


def assigned_values(tree: ast.Module | ast.ClassDef) -> Mapping[str, ast.expr]:
    """Give the values that a module or class assigns: name → expression, ``Class.name`` in class bodies.

    Order: of the source; where a name is assigned twice, the last wins.
    """
    found: dict[str, ast.expr] = {}
    _assigned(tree.body, "", found)
    return found


def _assigned(body: list[ast.stmt], prefix: str, found: dict[str, ast.expr]) -> None:
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[prefix + name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[prefix + name] = value
            case ast.ClassDef(name=name, body=inner):
                _assigned(inner, f"{prefix}{name}.", found)
            case ast.If(body=inner, orelse=other):
                _assigned(inner, prefix, found)
                _assigned(other, prefix, found)
            case ast.Try(body=inner):
                _assigned(inner, prefix, found)
            case _:
                pass


def mapping_items(value: ast.expr) -> Iterator[tuple[str, ast.expr, int]]:
    """Walk a mapping that is written down: key, value, line.

    Takes a dict display, a call with keywords (``LazyConfigDict(a="B")``), and ``**{…}`` inside
    either; ``**OTHER`` is passed over, since its entries stand elsewhere.
    """
    match value:
        case ast.Dict(keys=keys, values=values):
            for key, item in zip(keys, values, strict=True):
                if key is None:
                    yield from mapping_items(item)
                elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, item, key.lineno
        case ast.Call(args=arguments, keywords=keywords):
            for argument in arguments:
                yield from mapping_items(argument)
            for keyword in keywords:
                if keyword.arg is None:
                    yield from mapping_items(keyword.value)
                else:
                    yield keyword.arg, keyword.value, keyword.lineno
        case _:
            return


def member_strings(value: ast.expr) -> Iterator[tuple[str, int]]:
    """Walk the strings of a list, set, tuple, frozenset call or ``Literal[…]``, with their lines."""
    match value:
        case ast.List(elts=items) | ast.Set(elts=items) | ast.Tuple(elts=items):
            for item in items:
                if isinstance(item, ast.Constant) and isinstance(item.value, str):
                    yield item.value, item.lineno
        case ast.Subscript(slice=inner):
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                yield inner.value, inner.lineno
            else:
                yield from member_strings(inner)
        case ast.Call(args=[argument]):
            yield from member_strings(argument)
        case _:
            return


def text_of(value: ast.expr) -> str | None:
    """Give the string that a constant holds."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    return None


def pair_of(value: ast.expr) -> tuple[str, str] | None:
    """Give the two strings of a tuple ``("module", "Class")``."""
    match value:
        case ast.Tuple(elts=[ast.Constant(value=str(first)), ast.Constant(value=str(second))]):
            return first, second
        case _:
            return None


def imported_names(body: list[ast.stmt], package: str) -> Mapping[str, tuple[str, str]]:
    """Give what the statements import at their own level: bound name → (module, name there).

    ``package`` resolves relative imports; the name is empty where a module itself is bound.
    Looks into ``if`` and ``try``, not into functions or classes.
    """
    found: dict[str, tuple[str, str]] = {}
    for node in body:
        match node:
            case ast.ImportFrom(names=names):
                module = absolute_module(node, package)
                for alias in names:
                    found[alias.asname or alias.name] = (module, alias.name)
            case ast.Import(names=names):
                for alias in names:
                    bound = alias.asname or alias.name.partition(".")[0]
                    found[bound] = (alias.name if alias.asname else bound, "")
            case ast.If(body=inner, orelse=other):
                found.update(imported_names(inner, package))
                found.update(imported_names(other, package))
            case ast.Try(body=inner, handlers=handlers):
                for handler in handlers:
                    found.update(imported_names(handler.body, package))
                found.update(imported_names(inner, package))
            case _:
                pass
    return found


def absolute_module(node: ast.ImportFrom, package: str) -> str:
    """Resolve a ``from`` import: ``package`` is the one that the importing module lives in."""
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    kept = parts[: len(parts) - (node.level - 1)]
    return ".".join([*kept, node.module] if node.module else kept)


def module_of(path: str) -> str:
    """Give the dotted name of the module at a path."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def package_of(path: str) -> str:
    """Give the dotted name of the package that a file's relative imports start from."""
    return path.rpartition("/")[0].replace("/", ".")


def path_of(module: str, files: Files) -> str | None:
    """Give the file of a dotted module, None where the install has none."""
    stem = module.replace(".", "/")
    for path in (f"{stem}.py", f"{stem}/__init__.py"):
        if path in files:
            return path
    return None
