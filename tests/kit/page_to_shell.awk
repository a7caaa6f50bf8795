# Turns a page of docs/ that contains programs into a bash script, which does what a reader of the page does, in order:
#   ```c      whose first line is /* NAME.c: ... */: writes the file NAME.c
#             /* NEW.c: OLD.c with this instead of F, G: */ copies OLD.c; the block takes the place of the function or
#             table F, and G is removed
#   ```make   writes Makefile
#   ```sh     runs; every command must succeed. ```sh fails: must fail. ```sh norun: is only shown
#   ```text   must be what the sh block before it printed (page_prints.awk)
# The script calls page_sh, page_edit and page_text, which tests/cli/test_docs_c.sh defines.
function flush_file() {
    print "PAGE_END"
    if (edit != "") print "page_edit " line " " edit
}

/^```/ && kind != "" {
    if (kind == "c" || kind == "make") flush_file()
    else if (kind == "sh") print "}"
    else if (kind == "fails") { print "}; then page_succeeded; fi" }
    else if (kind == "text") print "PAGE_END"
    if (kind == "sh" || kind == "fails") print "page_ran"
    kind = ""
    next
}

/^```sh$/ { kind = "sh"; print "page_at " NR "\n{"; next }
/^```sh fails$/ { kind = "fails"; print "page_at " NR "\nif {"; next }
/^```text/ { kind = "text"; print "page_text " NR " '" substr($0, 8) "' <<'PAGE_END'"; next }
/^```make$/ { kind = "make"; edit = ""; print "cat >Makefile <<'PAGE_END'"; next }
/^```c$/ { kind = "c"; line = NR; is_first = 1; next }
/^```/ { kind = "other"; next }

kind == "c" && is_first {
    is_first = 0
    edit = ""
    if (match($0, /^\/\* [a-z_0-9]+\.c: [a-z_0-9]+\.c with this instead of /)) {
        split(substr($0, 4), name, /: | with this instead of /)
        of = name[3]
        sub(/: ?\*\/$/, "", of)
        gsub(/,| and/, "", of)
        edit = name[2] " " name[1] " " of
        print "cat >page_block <<'PAGE_END'"
        next
    }
    if (match($0, /^\/\* [a-z_0-9]+\.c: /)) {
        split(substr($0, 4), name, ":")
        print "cat >" name[1] " <<'PAGE_END'"
    } else {
        print "page_fail " NR " 'a block of C must begin with the name of its file'"
        print "cat >/dev/null <<'PAGE_END'"
    }
}
kind == "sh" || kind == "fails" || kind == "text" || kind == "c" || kind == "make" { print }
