"""Makes docs/reference/python.md of the sources in `forebay`: what the modules export, with its docstrings and `#:` comments. Nothing is imported."""

import ast
import re
import textwrap
from pathlib import Path

FOLDER = Path(__file__).parent
MODULES = ["forebay", "forebay.store", "forebay.records", "forebay.sql", "forebay.testing"]
ABOUT = (
    "What the Python package `forebay` exports for handlers and their tests, made from its sources; [its README](../../sdk/python/README.md) shows how to "
    "use it. [`forebay`](javascript.md) for JavaScript has the same in its own spelling."
)
# Indented lines behind an empty one, with the empty ones between them.
CODE = re.compile(r"(?<=\n\n)    .+\n(?:(?:\n*    .+)\n)*")


class Module:
    """A parsed source file."""

    loaded = {}

    def __init__(self, name):
        path = FOLDER / name.replace(".", "/")
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        text = path.read_text(encoding="utf-8")
        self.package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        self.lines = text.split("\n")
        self.tree = ast.parse(text)
        self.definitions, self.imports = {}, {}
        for node in self.tree.body:
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                source = f"{self.package}.{node.module}" if node.module else self.package
                self.imports.update({alias.asname or alias.name: (source, alias.name) for alias in node.names})
            for name in names_of(node):
                self.definitions.setdefault(name, []).append(node)

    @classmethod
    def load(cls, name):
        if name not in cls.loaded:
            cls.loaded[name] = cls(name)
        return cls.loaded[name]

    def find(self, name):
        """The module that defines a name, and the statements that do: several of an overloaded function. None for what is not of the package."""
        if name in self.definitions:
            return self, self.definitions[name]
        source, original = self.imports.get(name, (None, None))
        return Module.load(source).find(original) if source else None

    def comment(self, node):
        """The `#:` comment above a statement."""
        at, found = node.lineno - 2, []
        while self.lines[at].strip().startswith("#:"):
            found.insert(0, self.lines[at].strip()[2:].strip())
            at -= 1
        return " ".join(found)


def names_of(node):
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def unquoted(annotation):
    is_text = isinstance(annotation, ast.Constant) and isinstance(annotation.value, str)
    return annotation.value if is_text else ast.unparse(annotation)


def signature(node, is_method=False):
    for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]:
        if argument is not None and argument.annotation is not None:
            argument.annotation = ast.Name(unquoted(argument.annotation))
    arguments = ast.unparse(node.args)
    if is_method and not is_decorated(node, "staticmethod"):
        arguments = arguments.split(", ", 1)[1] if ", " in arguments else ""
        arguments = arguments[3:] if arguments.startswith("/, ") else "" if arguments == "/" else arguments
    result = f" -> {unquoted(node.returns)}" if node.returns is not None else ""
    start = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    start += "static " if is_method and (is_decorated(node, "staticmethod") or is_decorated(node, "classmethod")) else ""
    if is_decorated(node, "property"):
        return f"{node.name}: {unquoted(node.returns)}"
    return f"{start}{node.name}({arguments}){result}"


def is_decorated(node, name):
    return any(isinstance(decorator, ast.Name) and decorator.id == name for decorator in getattr(node, "decorator_list", []))


def doc_of(node):
    """A docstring as Markdown: what it indents is code."""
    text = ast.get_docstring(node, clean=False)
    if text is None:
        return ""
    indent = " " * node.body[0].col_offset
    first, *others = text.rstrip().split("\n")
    lines = [first.strip(), *(line[len(indent) :] if line.startswith(indent) else line.strip() for line in others)]
    return CODE.sub(lambda code: f"```python\n{textwrap.dedent(code[0]).rstrip()}\n```\n", "\n".join(lines) + "\n").rstrip()


def signatures(nodes, is_method=False):
    """Those of a function, and its docstring. An overloaded one is shown as its overloads."""
    overloads = [node for node in nodes if is_decorated(node, "overload")]
    doc = next((doc_of(node) for node in nodes if doc_of(node)), "")
    return [signature(node, is_method) for node in overloads or nodes], doc


def members(module, node):
    """The public members of a class, those of its bases first, as (text, documentation) by name."""
    found = {}
    for base in node.bases:
        inherited = module.find(base.id) if isinstance(base, ast.Name) else None
        if inherited is not None:
            found.update(members(inherited[0], inherited[1][0]))
    functions = {}
    for member in node.body:
        if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name) and not member.target.id.startswith("_"):
            found[member.target.id] = (f"{member.target.id}: {unquoted(member.annotation)}", module.comment(member))
        elif isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if member.name == "__init__":
                found.update(attributes(module, member))
            elif not member.name.startswith("_") and not any(isinstance(decorator, ast.Attribute) for decorator in member.decorator_list):
                functions.setdefault(member.name, []).append(member)
    for name, nodes in functions.items():
        texts, doc = signatures(nodes, is_method=True)
        found[name] = ("`\n- `".join(texts), doc or found.get(name, ("", ""))[1])
    return found


def attributes(module, init):
    """What `__init__` documents of the attributes that it sets."""
    for statement in init.body:
        for target in getattr(statement, "targets", []):
            comment = module.comment(statement)
            if comment and isinstance(target, ast.Attribute) and not target.attr.startswith("_"):
                yield target.attr, (target.attr, comment)


def described(module, name):
    owner, nodes = module.find(name)
    node = nodes[0]
    parts = [f"### {name}"]
    if isinstance(node, ast.ClassDef):
        parts += [doc_of(node)]
        init = next((member for member in node.body if getattr(member, "name", None) == "__init__"), None)
        # Other classes are made by the package alone.
        if init is not None and f"{name}(" in doc_of(node):
            parts += [f"```python\n{name}{signature(init, is_method=True)[8:].replace(' -> None', '')}\n```", doc_of(init)]
        items = [f"- `{text}`" + (f"\n\n{doc}".replace("\n", "\n  ").replace("\n  \n", "\n\n") if doc else "") for text, doc in members(owner, node).values()]
        parts += ["\n".join(items)]
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        texts, doc = signatures(nodes)
        parts += [doc, "```python\n" + "\n".join(texts) + "\n```"]
    else:
        parts += [owner.comment(node)]
    return "\n\n".join(part for part in parts if part)


def reference():
    """The page as Markdown."""
    sections = []
    for name in MODULES:
        module = Module.load(name)
        listed = [ast.literal_eval(node.value) for node in module.tree.body if names_of(node) == ["__all__"]]
        own = [described(module, one) for one in (listed[0] if listed else module.definitions) if not one.startswith("_")]
        sections.append("\n\n".join([f"## `{name}`", doc_of(module.tree), *own]))
    comment = "<!-- Made from sdk/python/forebay. To refresh: FOREBAY_REFRESH=1 python3 -m unittest tests.test_reference, in sdk/python -->"
    return "\n\n".join(["# Python API", comment, ABOUT, *sections]) + "\n"
