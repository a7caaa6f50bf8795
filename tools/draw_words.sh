#!/usr/bin/env bash
# Draws comments, messages and passages of the pages at random, so that a reader can judge whether each is clear.
#
# tools/draw_words.sh SEED         100 comments, 60 messages and 10 passages of pages; a seed always draws the same ones
# tools/draw_words.sh all PATH...  all comments and messages under these paths, in order
set -eu
cd "$(dirname "$0")/.."
exec python3 - "$@" <<'PYTHON'
import random
import re
import subprocess
import sys

NUM_COMMENTS, NUM_MESSAGES, NUM_PAGES, MOST_LINES = 100, 60, 10, 40

TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
# Functions and macros that take a text for the user, up to the first string of the call.
SPEAKER = re.compile(r'\b(MEGA_FAIL|MEGA_CONTEXT|MEGA_ASSERT|mega_(?:warn|info|error|debug|fail)|mega_config_mistake|'
                     r'f?printf|command_fail|usage_fail|mistake|refuse)\s*\([^";]*$')


def files(paths):
    listed = subprocess.run(['git', 'ls-files', '--', *paths], capture_output=True, text=True, check=True)
    return [f for f in listed.stdout.split('\n') if f]


def line_of(text, at):
    return text.count('\n', 0, at) + 1


def c_items(name, text):
    """The comments and messages of a C file: (kind, file, line, text)."""
    end_of_string, spoken = -1, False
    for m in TOKEN.finditer(text):
        token, line = m.group(), line_of(text, m.start())
        if token[0] == '/':
            before = text[text.rfind('\n', 0, m.start()) + 1:m.start()].strip()
            after = text[m.end():].lstrip().split('\n')[0]
            yield 'comment', name, line, token + '\n        | ' + (before or after)
        elif token[0] == '"':
            # Strings that follow each other are one message; a word or a format alone is none.
            joined = re.fullmatch(r'[\sA-Zx0-9_]*', text[end_of_string:m.start()]) if end_of_string >= 0 else None
            if joined and spoken:
                yield 'more', name, line, token
            else:
                spoken = bool(SPEAKER.search(text[max(0, m.start() - 300):m.start()])) or token.count(' ') >= 3
                if spoken:
                    yield 'message', name, line, token
            end_of_string = m.end()


def hash_items(name, text):
    """The blocks of `#` comments of a script or of a CMake file."""
    for m in re.finditer(r'(?:^[ \t]*#(?!!)[^\n]*\n)+', text, re.M):
        yield 'comment', name, line_of(text, m.start()), m.group().rstrip()


def items(paths):
    found = []
    for name in files(paths):
        if not re.search(r'(\.[ch]|\.sh|\.cmake|CMakeLists\.txt)$', name):
            continue
        text = open(name, encoding='utf-8').read()
        for item in (c_items if name.endswith(('.c', '.h')) else hash_items)(name, text):
            if item[0] == 'more':
                found[-1] = (*found[-1][:3], found[-1][3] + ' ' + item[3])
            else:
                found.append(item)
    return [i for i in found if i[0] == 'comment' or (i[3].count(' ') >= 3 and 'tests/' not in i[1])]


def show(item):
    print(f'{item[1]}:{item[2]}: {item[3]}\n')


def passage(page):
    """At most MOST_LINES lines of a page from a heading drawn at random."""
    lines = open(page, encoding='utf-8').read().split('\n')
    starts = [n for n, line in enumerate(lines) if line.startswith('#')] or [0]
    first = random.choice(starts)
    return '\n'.join([f'{page}:{first + 1}'] + lines[first:first + MOST_LINES])


def main():
    if len(sys.argv) > 2 and sys.argv[1] == 'all':
        for item in items(sys.argv[2:]):
            show(item)
        return
    if len(sys.argv) != 2:
        sys.exit('usage: tools/draw_words.sh SEED, or tools/draw_words.sh all PATH...')
    random.seed(sys.argv[1])
    found = items(['.'])
    for kind, count in ('comment', NUM_COMMENTS), ('message', NUM_MESSAGES):
        print(f'==== {count} {kind}s ====\n')
        for item in sorted(random.sample([i for i in found if i[0] == kind], count)):
            show(item)
    print(f'==== passages of {NUM_PAGES} pages ====\n')
    for page in sorted(random.sample([f for f in files(['.']) if f.endswith('.md')], NUM_PAGES)):
        print(passage(page), '\n')


main()
PYTHON
