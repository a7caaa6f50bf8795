#!/usr/bin/env python3
"""Prints the links of Markdown files that lead nowhere: to a file that is not there, or to a heading that it lacks.
  page_links.py FILE..."""
import os
import re
import sys

FENCED = re.compile(r"^```.*?^```", re.S | re.M)


def headings(page):
    """The anchors of a page, as GitHub makes them of its headings."""
    with open(page, encoding="utf-8") as file:
        titles = re.findall(r"^#+ (.*)", FENCED.sub("", file.read()), re.M)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower() for title in titles)
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


def main():
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


if __name__ == "__main__":
    main()
