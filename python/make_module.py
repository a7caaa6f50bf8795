#!/usr/bin/env python3
"""Prints python/megalith.py: functions, structs, enums and constants of the installed headers.

    python3 python/make_module.py >python/megalith.py
    python3 python/make_module.py PREFIX/include VERSION        # the same, of an installation

module_begin.py and module_end.py are the parts written by hand, which go before and after the
declarations.

The headers are read as text: comments and attributes are dropped, then each statement is a typedef,
an enum or a function. Any other statement ends the program with an error, so that nothing is left
out silently. A static inline function has no symbol in the library and is left out.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

SCALARS = {
    "bool": "c_bool",
    "char": "c_char",
    "double": "c_double",
    "float": "c_float",
    "int": "c_int",
    "int8_t": "c_int8",
    "int16_t": "c_int16",
    "int32_t": "c_int32",
    "int64_t": "c_int64",
    "uint8_t": "c_uint8",
    "uint16_t": "c_uint16",
    "uint32_t": "c_uint32",
    "uint64_t": "c_uint64",
    "size_t": "c_size_t",
    "unsigned long long": "c_ulonglong",
    "sig_atomic_t": "c_int",
}
# Classes of module_begin.py that have more than members.
BASES = {"mega_tensor": "_Tensor", "mega_builder": "_Builder"}


class Declared(NamedTuple):
    """A member, parameter or result. `const char *a[4]` is ("char", 1, True, "a", ["4"])."""

    base: str
    stars: int
    is_const: bool
    name: str
    dims: list
    callback: list | None = None  # the parameters, where it is a pointer to a function


class Function(NamedTuple):
    result: Declared
    parameters: list
    is_checked: bool
    is_variadic: bool
    header: str
    prototype: str


def split(text: str, mark: str) -> list[str]:
    """Splits at marks outside of brackets; leaves out empty pieces."""
    pieces, depth, piece = [], 0, ""
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == mark and depth == 0:
            pieces.append(piece)
            piece = ""
        else:
            piece += c
    pieces.append(piece)
    return [p.strip() for p in pieces if p.strip()]


def declared(text: str) -> Declared:
    """Reads one declaration."""
    pointer = re.fullmatch(r"(.*?)\(\s*\*\s*(\w+)\s*\)\s*\((.*)\)", text, re.S)
    if pointer:
        result = declared(pointer[1] + " result")
        return result._replace(name=pointer[2], callback=parameters(pointer[3])[0])
    dims = re.findall(r"\[([^]]*)\]", text)
    words = re.findall(r"\w+|\*", re.sub(r"\[.*", "", text, flags=re.S))
    is_const = "const" in words and words.index("const") < (words + ["*"]).index("*")
    words = [w for w in words if w not in ("const", "volatile", "struct")]
    stars = words.count("*")
    names = [w for w in words if w != "*"]
    is_named = stars > 0 and words[-1] != "*" or stars == 0 and len(names) > 1
    name = names.pop() if is_named else ""
    return Declared(" ".join(names), stars, is_const, name, dims)


def parameters(text: str) -> tuple[list[Declared], bool]:
    pieces = [p for p in split(text, ",") if p != "void"]
    return [declared(p) for p in pieces if p != "..."], "..." in pieces


def members(text: str) -> list[Declared]:
    """Members of a struct; `int a, *b;` declares two."""
    found = []
    for statement in split(text, ";"):
        first, *more = split(statement, ",")
        found.append(declared(first))
        base = re.match(r"((?:const\s+|struct\s+)*(?:unsigned long long|\w+))", first)[1]
        found += [declared(f"{base} {m}") for m in more]
    return found


class Module:
    """The declarations in the order of the headers, and the lines that declare them in Python."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.seen: set[str] = set()
        self.constants: dict[str, int] = {}
        self.enums: set[str] = set()
        self.structs: dict[str, list[Declared] | None] = {}
        self.callbacks: set[str] = set()
        self.functions: dict[str, Function] = {}
        self.items: list[tuple] = []  # (kind, name, …), in order
        self.read("megalith.h")

    # ---- reading ----

    def read(self, name: str) -> None:
        if name in self.seen:
            return
        self.seen.add(name)
        places = [self.folder / "megalith" / name, *self.folder.glob(f"*/include/megalith/{name}")]
        text = next(path for path in places if path.exists()).read_text(encoding="utf-8")
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S).replace("\\\n", " ")
        text = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", text, flags=re.S)
        self.items.append(("header", name))
        body = ""
        for line in text.splitlines():
            include = re.match(r'#include "megalith/(\w+\.h)"', line)
            constant = re.match(r"#define (MEGA_\w+)\s+(?:\(\(size_t\)(\d+)\)|(\d+))\s*$", line)
            if include:
                self.read(include[1])
            elif constant:
                self.constant(constant[1], constant[2] or constant[3])
            elif not line.startswith("#"):
                body += line + "\n"
        self.items.append(("header", name))
        for statement in self.statements(body):
            self.statement(" ".join(statement.split()), name)

    @staticmethod
    def statements(body: str):
        """Yields each statement; a static inline function with its body is left out."""
        text, depth = "", 0
        for c in body:
            text += c
            depth += (c == "{") - (c == "}")
            if c == ";" and depth == 0:
                yield text[:-1]
                text = ""
            elif c == "}" and depth == 0 and re.match(r"\s*static inline\b", text):
                text = ""

    def statement(self, text: str, header: str) -> None:
        is_checked = "MEGA_CHECK_RESULT" in text
        text = re.sub(
            r"\s*__attribute__\s*\(\(.*?\)\)\)?", "", text.replace("MEGA_CHECK_RESULT ", "")
        )
        enum = re.fullmatch(r"(?:typedef )?enum (?:\w+ )?\{(.*)\}\s*(\w*)", text)
        struct = re.fullmatch(r"typedef struct \w+ \{(.*)\} (\w+)", text)
        opaque = re.fullmatch(r"typedef struct (\w+) \1", text)
        callback = re.fullmatch(r"typedef (.*?\W)(\w+)\((.*)\)", text)
        function = re.fullmatch(r"([\w ]+?[ *]+)(mega_\w+)\s*\((.*)\)", text)
        if re.fullmatch(r"struct \w+", text):
            pass  # declared for pointers to it, which Python passes on as they are
        elif enum:
            self.enum(enum[1], enum[2])
        elif struct:
            self.struct(struct[2], members(struct[1]))
        elif opaque:
            self.structs[opaque[1]] = None
            self.items.append(("opaque", opaque[1]))
        elif callback:
            result, given = declared(callback[1] + " result"), parameters(callback[3])[0]
            self.callback(callback[2], result, given)
        elif function:
            result, (given, is_variadic) = declared(function[1] + " result"), parameters(
                function[3]
            )
            self.own_callbacks(function[2], given)
            entry = Function(result, given, is_checked, is_variadic, header, text)
            self.functions[function[2]] = entry
            self.items.append(("function", function[2]))
        else:
            sys.exit(f"make_module.py: {header}: this statement is not understood: {text}")

    def constant(self, name: str, value: str) -> None:
        self.constants[name] = self.number(value)
        self.items.append(("constant", name))

    def number(self, expression: str) -> int:
        """The value of a sum or product of numbers and earlier constants."""
        return int(eval(expression, {"__builtins__": {}}, self.constants))

    def enum(self, body: str, name: str) -> None:
        value = -1
        if name:
            self.enums.add(name)
            self.items.append(("enum", name))
        for entry in split(body, ","):
            key, _, given = (part.strip() for part in entry.partition("="))
            self.constant(key, given or str(value + 1))
            value = self.constants[key]

    def struct(self, name: str, fields: list[Declared]) -> None:
        self.own_callbacks(name, fields)
        self.structs[name] = fields
        self.items.append(("struct", name))

    def own_callbacks(self, owner: str, given: list[Declared]) -> None:
        """Declares the callbacks that have no type of their own: OWNER_NAME_function."""
        for d in given:
            if d.callback is not None:
                self.callback(f"{owner}_{d.name}_function", d._replace(callback=None), d.callback)

    def callback(self, name: str, result: Declared, given: list[Declared]) -> None:
        self.callbacks.add(name)
        self.items.append(("callback", name, result, given))

    # ---- types ----

    def type_of(self, d: Declared, place: str, owner: str = "") -> str:
        """The type for ctypes. place: "parameter" or "result", "member", "callback"."""
        if d.callback is not None:
            return f"{owner}_{d.name}_function"
        stars, dims = d.stars, d.dims
        if dims and place != "member":
            stars, dims = stars + 1, []
        if d.base in self.callbacks:
            text, stars = d.base, stars - 1
        elif stars > 0 and (
            d.base == "void" or d.base not in SCALARS and not self.is_known(d.base)
        ):
            text, stars = "c_void_p", stars - 1  # also of a struct that is named here alone
        elif d.base == "void":
            text = "None"
        elif d.base == "char" and stars > 0 and (d.is_const or place == "member" and stars == 2):
            is_text = stars == 1 and place in ("parameter", "result")
            text, stars = "_text" if is_text else "c_char_p", stars - 1
        else:
            text = SCALARS.get(d.base, d.base)
        for _ in range(stars):
            text = f"POINTER({text})"
        for dim in reversed(dims):
            text = f"{text} * {self.number(dim)}"
        return text

    def is_known(self, base: str) -> bool:
        return (
            base == "void" or base in self.structs or base in self.enums or base in self.callbacks
        )

    # ---- writing ----

    def lines(self):
        header = None
        for kind, name, *more in self.items:
            if kind == "header":
                header = name
                continue
            if header:
                yield f"\n# ---- {header} ----\n"
                header = None
            if kind == "constant":
                yield f"{name} = {self.constants[name]}"
            elif kind == "enum":
                yield f"{name} = c_int"
            elif kind == "opaque":
                if self.structs[name] is None:
                    yield f"\n\nclass {name}(Structure):\n    pass\n\n"
            elif kind == "callback":
                result, given = more
                types = [self.type_of(d, "callback") for d in given]
                yield call(f"{name} = _callback(", [self.type_of(result, "callback"), *types])
            elif kind == "struct":
                yield from self.struct_lines(name)
            else:
                yield self.function_line(name)

    def struct_lines(self, name: str):
        yield f"\n\nclass {name}({BASES.get(name, '_Struct')}):"
        fields = [
            f'        ("{d.name}", {self.type_of(d, "member", name)}),' for d in self.structs[name]
        ]
        yield "\n".join(["    _fields_ = [", *fields, "    ]"])
        if name == "mega_builder":
            yield from self.builder_methods()
        yield "\n"

    def function_line(self, name: str) -> str:
        f = self.functions[name]
        result = "_checked" if f.is_checked else self.type_of(f.result, "result")
        types = [self.type_of(d, "parameter", name) for d in f.parameters]
        return call(f"{name} = _function(", [f'"{name}"', result, *types])

    def builder_methods(self):
        """A method for each function that begins with a builder; options become keywords."""
        for name, f in self.functions.items():
            first = f.parameters[0] if f.parameters else None
            names = [d.name for d in f.parameters[1:]]
            if first is None or first.base != "mega_builder" or f.is_variadic or "self" in names:
                continue
            given, passed, options = ["self"], ["_usable(self)"], None
            for d in f.parameters[1:]:
                if d.base.endswith("_options") and d.stars == 1 and d.is_const:
                    options = d.base
                    passed.append(f"_options({options}, options)")
                else:
                    given.append(d.name + ("=None" if d.name == "weights" else hint(d)))
                    passed.append(d.name)
            given += ["**options"] if options else []
            method = re.sub("^mega_(builder_)?", "", name)
            yield "\n" + call(f"    def {method}(", given, "):")
            yield documentation(f, 8)
            yield call(f"        return {name}(", passed)

    def engine_methods(self):
        """A method for each function of an engine that takes and returns numbers and texts only."""
        plain = set(SCALARS) | self.enums | {"void"}
        for name, f in self.functions.items():
            first, *more = f.parameters or [None]
            if first is None or first.base != "mega_engine" or name == "mega_engine_destroy":
                continue
            values = [f.result, *more]
            if any(
                d.base not in plain or d.stars > (d.base == "char" and d.is_const) or d.dims
                for d in values
            ):
                continue
            method = name[len("mega_engine_") :]
            yield "\n" + call(
                f"    def {method}(", ["self", *(d.name + hint(d) for d in more)], "):"
            )
            yield documentation(f, 8)
            yield call(f"        return {name}(", ["self._handle", *(d.name for d in more)])


def hint(d: Declared) -> str:
    if d.base == "char" and d.stars == 1:
        return ": str"
    if d.stars > 0 or d.dims:
        return ""
    if d.base in ("bool", "float", "double"):
        return ": bool" if d.base == "bool" else ": float"
    return ": int" if d.base in SCALARS or not d.base.startswith("mega_") else ""


def call(begin: str, words: list[str], end: str = ")") -> str:
    """begin, words with commas, end; wrapped to 100 columns."""
    indent = " " * (len(begin) - len(begin.lstrip()) + 4)
    if len(begin + ", ".join(words) + end) <= 100:
        return begin + ", ".join(words) + end
    lines, line = [begin], indent + ("    " if end == "):" else "")
    start = line
    for i, word in enumerate(words):
        piece = word + (end if i == len(words) - 1 else ",")
        if len(line) + len(piece) + 1 > 100 and line != start:
            lines.append(line.rstrip())
            line = start
        line += piece + " "
    return "\n".join([*lines, line.rstrip()])


def documentation(f: Function, indent: int) -> str:
    """The prototype as a docstring, wrapped."""
    words = f"{f.header}: {f.prototype}".replace('"', "'").split()
    lines, line = [], " " * indent + '"""'
    for i, word in enumerate(words):
        if len(line) + len(word) > (99 if i < len(words) - 1 else 96):
            lines.append(line.rstrip())
            line = " " * indent
        line += word + " "
    return "\n".join([*lines, line.rstrip() + '"""'])


def main() -> None:
    if len(sys.argv) not in (1, 3):
        sys.exit(__doc__)
    here = Path(__file__).resolve().parent
    project = (here.parent / "CMakeLists.txt").read_text(encoding="utf-8")
    default = [str(here.parent / "src"), re.search(r"project\(\w+ VERSION ([0-9.]+)", project)[1]]
    folder, version = sys.argv[1:] or default
    module = Module(Path(folder))
    begin = (here / "module_begin.py").read_text(encoding="utf-8")
    text = begin.replace("@VERSION@", ".".join(version.split(".")[:2]))
    text += "\n".join(module.lines())
    text += "\n\n\nclass _EngineCalls:\n"
    text += '    """Functions of an engine that take and return numbers and texts."""\n\n'
    text += "\n".join(module.engine_methods()) + "\n"
    text += (here / "module_end.py").read_text(encoding="utf-8")
    sys.stdout.write(re.sub(r"\n{4,}", "\n\n\n", text))


if __name__ == "__main__":
    main()
