#!/usr/bin/env bash
# Prints docs/errors.md. The table of statuses comes from the comments in base/status.h and the names in base/status.c.
#   tools/make_errors_page.sh >docs/errors.md
set -euo pipefail
cd "$(dirname "$0")/.."
cat <<'PAGE'
# Errors

What a command does when it fails, and the error codes of the library. `tools/make_errors_page.sh` writes this page; do not edit it by hand.

## Errors of a command

A command that fails prints one message to standard error. It says what is wrong, what was found and expected, and what you can do:

```sh
! megalith tokenize --tokenizer-type ByteTokenizer --text abc --vocab-fil x
```

```text
megalith tokenize: error: --vocab-fil is not an option of tokenize; names are not abbreviated: write --vocab-file
```

All mistakes in options and in files are reported together, before any work begins. With `MEGA_CHECK=1` in the environment a message also names the source line
that reported it.

| exit status | meaning |
|---|---|
| 0 | success; also a training that saved and ended because of a signal |
| 1 | failure |
| 2 | an option or an argument is wrong; nothing was done |
| 128 + N | ended by signal N: 130 for Ctrl-C (SIGINT), 143 for SIGTERM, 129 for SIGHUP |

`megalith launch` ends with the status of the first rank that failed ([launching](launching.md)).

## Errors of a function

A library function that can fail returns a `mega_status`. `mega_error_message()` then returns a message like the one above. Each thread has its own message, which is
valid until the thread's next call of the library. The library prints no errors and does not end the program.

| value | constant | `mega_status_name` | meaning |
|---|---|---|---|
PAGE
awk '
    FNR == NR {
        if (match($0, /case MEGA_[A-Z_]+: return "[^"]+"/)) { split(substr($0, RSTART + 5, RLENGTH - 6), part, ": return \""); name[part[1]] = part[2] }
        next
    }
    /^typedef enum mega_status/ { on = 1; next }
    on && /^}/ { exit }
    on {
        constant = $1
        sub(/,$/, "", constant)
        meaning = constant == "MEGA_OK" ? "no error" : $0
        sub(/.*\/\* /, "", meaning)
        sub(/ \*\/.*/, "", meaning)
        printf "| %d | `%s` | %s | %s |\n", value++, constant, name[constant], meaning
    }' src/base/status.c src/base/include/megalith/status.h
cat <<'PAGE'

What to do:

- `MEGA_ERR_USAGE`, `MEGA_ERR_UNSUPPORTED`: change the program or its options; nothing has been done.
- `MEGA_ERR_NOT_FOUND`, `MEGA_ERR_IO`, `MEGA_ERR_FORMAT`: look at the file that the message names. Earlier files are unchanged ([crash](crash.md)).
- `MEGA_ERR_MEMORY`: use a smaller micro-batch or another layout ([layouts](layouts.md)). `megalith plan` shows how much memory a run needs.
- `MEGA_ERR_NUMERIC`: continue from the last checkpoint with a smaller learning rate. The message names the first tensor that is not finite.
- `MEGA_ERR_INTERRUPTED`: save if there is something to save, then end the program.
- `MEGA_ERR_BUSY`: wait for the process that the message names, or choose another output.
- `MEGA_ERR_COMM`: end the program. Another rank has printed the cause, or the message names the rank that is missing ([stalls](stalls.md)).

With several ranks, a collective function that fails returns an error on all of them, with the message of the rank that failed.
PAGE
