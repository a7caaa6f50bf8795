#!/usr/bin/env python3
"""Wraps prose of Markdown files at 120 columns: paragraphs and list items that have a longer line. Tables, headings,
code, and comments stay as they are; a link or a piece of code is never divided.
  tools/wrap_markdown.py FILE...            writes the files
  tools/wrap_markdown.py check FILE...      writes nothing, prints the lines that are too long"""
import re
import sys

WIDTH = 120
# What is one word: a link or a piece of code with what touches it, else everything up to a blank.
WORD = re.compile(r"(?:!?\[[^\]]*\](?:\([^)]*\))?|``.+?``|`[^`]*`|[^\s`\[]|[\[`])+")
ITEM = re.compile(r"^( *)([-*+]|\d+\.) +")
STARTS = re.compile(r"^([-=]+$|[*+]$|\d+[.)]$|[>|#])")  # would begin something else at the start of a line


def wrapped(lines):
    """The lines of one paragraph or list item, wrapped."""
    item = ITEM.match(lines[0])
    first = item.group(0) if item else re.match(r" *", lines[0]).group(0)
    rest = " " * len(first)
    text = " ".join([lines[0][len(first):]] + [line.strip() for line in lines[1:]])
    words, result, line = WORD.findall(text), [], first
    for word in words:
        blank = "" if line in (first, rest) else " "
        if blank and len(line) + 1 + len(word) > WIDTH and not STARTS.match(word):
            result.append(line)
            line = rest + word
        else:
            line += blank + word
    return result + [line]


def page(lines):
    """Yields (first, last, is_prose) for each paragraph or other block."""
    i, fence = 0, None
    while i < len(lines):
        line = lines[i]
        mark = re.match(r" *(```+|~~~+)", line)
        if fence or mark:
            fence = None if fence and mark and mark.group(1).startswith(fence) else fence or mark.group(1)
            yield i, i + 1, False
            i += 1
        elif not line.strip() or re.match(r" *([|#<>]|---)", line) or (line.startswith("    ")
            and not lines[i - 1].strip()):
            yield i, i + 1, False
            i += 1
        else:
            end = i + 1
            while end < len(lines) and lines[end].strip() and not ITEM.match(lines[end]) and not re.match(
                r" *(```|~~~|[|#<>])", lines[end]):
                end += 1
            yield i, end, not any(line.endswith(("  ", "\\")) for line in lines[i:end])
            i = end


def main():
    files = sys.argv[1:]
    check = files[:1] == ["check"]
    failed = False
    for name in files[check:]:
        with open(name, encoding="utf-8") as file:
            lines = file.read().split("\n")
        result = []
        for begin, end, is_prose in page(lines):
            block = lines[begin:end]
            result += wrapped(block) if is_prose and max(map(len, block)) > WIDTH else block
        if check and result != lines:
            failed = True
            print(f"{name}: prose is longer than {WIDTH} columns: tools/wrap_markdown.py {name}")
        elif result != lines:
            with open(name, "w", encoding="utf-8") as file:
                file.write("\n".join(result))
    sys.exit(failed)


if __name__ == "__main__":
    main()
