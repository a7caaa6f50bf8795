#!/bin/sh
# Writes the files of examples/template/ as an array of C, for megalith new (src/cli/new.c).
#
#   cmake/template.sh OUTPUT FILE...
set -eu
output=$1
shift
{
    echo "/* Written by cmake/template.sh. */"
    echo "static const template_file template_files[] = {"
    for file; do
        echo "    {\"$(basename "$file")\","
        sed -e 's/[\\"]/\\&/g' -e 's/	/\\t/g' -e 's/^.*$/     "&\\n"/' "$file"
        echo "    },"
    done
    echo "};"
} >"$output.new"
mv "$output.new" "$output"
