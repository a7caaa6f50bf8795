#!/usr/bin/env bash
# Draws what a command printed as a picture of a terminal. docs/pictures/terminal.svg is the end of make demo:
#
#   make demo | sed -n '/^== 4/,$p' | tools/draw_terminal.sh > docs/pictures/terminal.svg
#
# Lines are cut at 108 columns; lines that begin with $ or == are emphasised.
set -euo pipefail
awk -v columns=108 '
    {
        if (length($0) > columns) $0 = substr($0, 1, columns - 1) "…"
        gsub(/&/, "\\&amp;"); gsub(/</, "\\&lt;"); gsub(/>/, "\\&gt;")
        line[++n] = $0
    }
    END {
        height = 17 * n + 24
        printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"900\" height=\"%d\" viewBox=\"0 0 900 %d\">\n", height, height
        print "<style>text{font:13px ui-monospace,Menlo,Consolas,monospace;fill:#d6deeb;white-space:pre}.c{fill:#7fdbca}.h{fill:#ffcb6b}</style>"
        printf "<rect width=\"900\" height=\"%d\" rx=\"8\" fill=\"#011627\"/>\n", height
        for (i = 1; i <= n; i++) {
            class = line[i] ~ /^\$ / ? " class=\"c\"" : line[i] ~ /^== / ? " class=\"h\"" : ""
            printf "<text x=\"14\" y=\"%d\" xml:space=\"preserve\"%s>%s</text>\n", 17 * i + 8, class, line[i]
        }
        print "</svg>"
    }'
