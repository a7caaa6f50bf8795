#!/usr/bin/env python3
"""Prints what leads nowhere in Markdown files.
  page_links.py FILE...
Of all: links to a file that is not there, or to a heading that it lacks. Of the pages about the source also:
  - titles of sections in double quotes ("A title"), which must be a heading of one of these files. A title follows the
    name of its page if it has one: ARCHITECTURE, "Rooms" must be a heading of ARCHITECTURE.md
  - paths of folders without back quotes (families/models/), outside of tables: they are below the root of the tree, src/ or the page"""
import os
import re
import sys

SOURCE_PAGES = {"ARCHITECTURE.md"} | {f"docs/{name}.md" for name in ("kernels", "recipes", "strangers", "tests", "words")}
FENCED = re.compile(r"^```.*?^```", re.S | re.M)


def headings(page):
    """The anchors of a page, as GitHub makes them of its headings."""
    with open(page, encoding="utf-8") as file:
        titles = re.findall(r"^#+ (.*)", FENCED.sub("", file.read()), re.M)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower() for title in titles)
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


def titles(page):
    """The headings of a page as they read."""
    with open(page, encoding="utf-8") as file:
        found = re.findall(r"^#+ (.*)", FENCED.sub("", file.read()), re.M)
    return {title.replace("`", "").strip() for title in found}


def check_source_page(page, text, all_titles):
    """Quoted titles, and paths of folders, of a page about the source."""
    for before, title in re.findall(r'(\w*\W{1,2})"([A-Z][\w ,.?…\']+)"', text.replace("\n", " ")):
        name = before.strip(" ,(")
        where = f"docs/{name.lower()}.md" if name not in ("ARCHITECTURE", "README") else f"{name}.md"
        known = titles(where) if os.path.exists(where) else all_titles
        if title not in known:
            print(f'{page}: no page has a section "{title}"' if known is all_titles else
                  f'{page}: {where} has no section "{title}"')
    prose = re.sub(r"`[^`\n]*`|\]\([^)\s]+\)|^\|.*", "", text, flags=re.M)
    for path in re.findall(r"(?:^|(?<=[\s(]))((?:[a-z_]+/)+)(?=[\s.,;:)]|$)", prose, re.M):
        if not any(os.path.isdir(os.path.join(root, path)) for root in (".", "src", os.path.dirname(page))):
            print(f"{page}: there is no folder {path}")


def main():
    all_titles = set().union(*(titles(page) for page in sys.argv[1:]))
    for page in sys.argv[1:]:
        with open(page, encoding="utf-8") as file:
            text = FENCED.sub("", file.read())
        for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if not os.path.exists(target):
                print(f"{page}: there is no file {link}")
            elif anchor and target.endswith(".md") and anchor not in headings(target):
                print(f"{page}: there is no heading {link}")
        if page.startswith("src/") or page in SOURCE_PAGES:
            check_source_page(page, text, all_titles)


if __name__ == "__main__":
    main()
