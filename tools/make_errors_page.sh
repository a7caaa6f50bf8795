#!/usr/bin/env bash
# Prints docs/errors.md: the statuses and their meanings come from base/status.h, their names from base/status.c.
#   tools/make_errors_page.sh >docs/errors.md
set -euo pipefail
cd "$(dirname "$0")/.."
cat <<'PAGE'
# Errors

The tables of statuses are written by `tools/make_errors_page.sh` from `src/base/include/megalith/status.h`; do not edit them by hand.

## Of a command

A command that fails prints one message to standard error. It names what is wrong, what was found, what was expected, and what to do:

```sh
! megalith tokenize --tokenizer-type ByteTokenizer --text abc --vocab-fil x
```

```text
megalith tokenize: error: --vocab-fil is not an option of tokenize; names are not abbreviated: write --vocab-file
```

Mistakes in options and in files are reported together, before any work begins. `MEGA_CHECK=1` in the environment adds the line of the source that
found the mistake.

| exit status | meaning |
|---|---|
| 0 | it did what was asked; a training that a signal ended and that is saved counts as done |
| 1 | it failed |
| 2 | an option or an argument is wrong, and nothing was done |
| 128 + N | signal N ended it: 130 Ctrl-C (SIGINT), 143 SIGTERM, 129 SIGHUP |

`megalith launch` ends with the status of the first rank that failed ([launching](launching.md)).

## Of a function

A function of the library that can fail returns a `mega_status`. `mega_error_message()` then says what happened, in the same words as above;
it is that of the calling thread and valid until the thread's next call. The library prints no errors and does not end the program.

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

What a caller may do about them:

- `MEGA_ERR_USAGE`, `MEGA_ERR_UNSUPPORTED`: the program or its options must be changed; nothing has been done.
- `MEGA_ERR_NOT_FOUND`, `MEGA_ERR_IO`, `MEGA_ERR_FORMAT`: the message names the file. What existed before is as it was ([crash](crash.md)).
- `MEGA_ERR_MEMORY`: `megalith plan` shows what a run needs; a smaller micro-batch or another layout needs less ([layouts](layouts.md)).
- `MEGA_ERR_NUMERIC`: go on from the last checkpoint with a smaller learning rate; the message names the first tensor that is not finite.
- `MEGA_ERR_INTERRUPTED`: save, if there is something to save, and leave.
- `MEGA_ERR_BUSY`: wait for the process that the message names, or choose another output.
- `MEGA_ERR_COMM`: leave. Another rank has printed the cause, or the message says which rank is missing ([stalls](stalls.md)).

With several ranks a collective function returns an error on all of them, with the message of the rank that failed.
PAGE
