"""Prints every name in a comment of src/ that nothing in the tree has: FILE:LINE: NAME.

A name is a word with an underscore, a word before (), a word in back quotes, or the name of a C file. It exists if it
is an identifier or a word of a string in any source file, the end of such an identifier ("check_pair" of a family of
functions), the name of a file, or a test. Names of other programs, and placeholders, are in comment_names.txt beside
this file; a row of it that no comment has is a mistake too.
"""
import re
import subprocess
import sys

LITERAL = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.S)
NAME = re.compile(r"(?<![\w./*-])([A-Za-z]\w*_\w+)(?![\w*]|\.[ch]\b)"  # with an underscore
                  r"|(?<![\w./-])([A-Za-z_]\w*)\(\)"  # a function
                  r"|`([A-Za-z_]\w*)`"
                  r"|(?<![\w*{}.-])((?:[a-z]\w*/)*[a-z]\w*\.[ch])(?!\w)")  # a file
SOURCE = re.compile(r"\.(c|h|cu|py|sh|cmake|awk|json|txt)$|Makefile$")
OWN = ("tests/cli/comment_names.py", "tests/cli/comment_names.txt")


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def known_names(files):
    """Returns all identifiers outside comments, and the ends of each."""
    known = set()
    for path in files:
        if not SOURCE.search(path) or path in OWN:
            continue
        text = read(path)
        if path.endswith((".c", ".h", ".cu")):
            text = LITERAL.sub(lambda m: "" if m[0].startswith("/") else m[0], text)
        known.update(re.findall(r"[A-Za-z_]\w*", text))
    ends = set()
    for name in known:
        parts = name.split("_")
        ends.update("_".join(parts[i:]) for i in range(1, len(parts) - 1))
    return known | ends


def comments(text):
    """Yields each comment with the line on which it begins."""
    for m in LITERAL.finditer(text):
        if m[0].startswith("/*"):
            yield m[0], text.count("\n", 0, m.start()) + 1


def main():
    files = [f for f in sys.stdin.read().split("\n") if f]
    known = known_names(files)
    known.update(f.split("/")[-1] for f in files)
    known.update(part for f in files for part in f.rsplit(".", 1)[0].split("/"))
    paths = "\n" + "\n".join(files) + "\n"
    foreign = {line.split()[0] for line in read(sys.argv[1]).split("\n") if line.strip() and line[0] != "#"}
    used, mistakes = set(), 0
    for path in files:
        if not re.match(r"src/.*\.([ch]|cu)$", path):
            continue
        for text, line in comments(read(path)):
            for m in NAME.finditer(text):
                name = m[1] or m[2] or m[3] or m[4]
                if name in foreign:
                    used.add(name)
                    continue
                if name in known or re.sub(r"^[a-z]+_(?=test_)", "", name) in known:
                    continue
                if name.endswith("_") and any(k.startswith(name) for k in known):
                    continue
                if m[4] and ("\n" + name + "\n" in paths or
                             re.search("/" + re.sub(r"/(?=[^/]*$)", "/(.*/)?", re.escape(name)) + "\n", paths)):
                    continue
                mistakes += 1
                print(f"{path}:{line + text.count(chr(10), 0, m.start())}: {name}")
    for name in sorted(foreign - used):
        mistakes += 1
        print(f"comment_names.txt: {name}: no comment has it")
    return mistakes > 0


if __name__ == "__main__":
    sys.exit(main())
