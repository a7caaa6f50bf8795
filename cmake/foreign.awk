# Makes rows of C of a table of src/foreign/, whose README.md says how a table is written. A mistake in it names file and
# line.   awk -v output=FILE.c -f foreign.awk option.h options_impl.h TABLE.txt      (the headers name kinds and commands)
# Replaces each @name by the sentence of its line "text name : SENTENCE".
function spelled_out(remark,   made, name) {
    while (match(remark, /@[a-z0-9-]+/)) {
        name = substr(remark, RSTART + 1, RLENGTH - 1)
        if (!(name in texts)) mistake("there is no text " name)
        made = made substr(remark, 1, RSTART - 1) texts[name]
        remark = substr(remark, RSTART + RLENGTH)
    }
    return made remark
}
function mistake(text) {
    printf "%s:%d: error: %s\n", FILENAME, FNR, text >"/dev/stderr"
    failed = 1
}
function quoted(text) {
    gsub(/[\\"]/, "\\\\&", text)
    return "\"" text "\""
}
function upper(word) {
    word = toupper(word)
    gsub(/-/, "_", word)
    return word
}
# Makes "((FOR_PRETRAIN) | FOR_PLAN) & ~FOR_BERT" of pretrain+plan-bert.
function set_of(text,   made, sign, word) {
    text = "+" text
    while (match(text, /^[-+][a-z0-9_]+/)) {
        sign = substr(text, 1, 1)
        word = "FOR_" upper(substr(text, 2, RLENGTH - 1))
        if (!(word in commands)) mistake("no command or group of commands is called " substr(text, 2, RLENGTH - 1))
        made = made == "" ? word : "(" made ")" (sign == "+" ? " | " : " & ~") word
        text = substr(text, RLENGTH + 1)
    }
    if (text != "") mistake("\"" text "\" is not commands joined by + and -")
    return made
}
# Returns the member of a row that a word of the form key=value sets.
function member_of(key, value,   known) {
    if (key == "commands") return ".commands = " set_of(value)
    if (key == "range") {
        if (!(("MEGA_RANGE_" upper(value)) in enumerators)) mistake("there is no range " value)
        return ".range = MEGA_RANGE_" upper(value)
    }
    if (!(key in members)) mistake("a row has no " key "=")
    return "." members[key] " = " quoted(value)
}
function row(head, remark,   count, word, i, at, key, given, text) {
    count = split(head, word, " ")
    if (!(word[1] in answers)) return mistake("\"" word[1] "\" is none of the answers no-effect, not-built, refused, alias, renamed and by-value")
    if (count < 3) return mistake("a row begins with an answer, a name and a kind")
    if (!(("MEGA_OPTION_" upper(word[3])) in enumerators)) mistake("there is no kind " word[3])
    if (variable == "") mistake("a row stands before the first section")
    text = form == "json" ? ".json = " quoted(word[2]) : ".name = " quoted(word[2])
    if (form == "yaml") text = text ", .yaml = " quoted(word[2])
    text = text ", .field = MEGA_NO_FIELD, .kind = MEGA_OPTION_" upper(word[3]) ", .answer = MEGA_ANSWER_" answers[word[1]]
    for (i = 4; i <= count; i++) {
        at = index(word[i], "=")
        key = at > 0 ? substr(word[i], 1, at - 1) : word[i]
        if (key in given) mistake(key " is given twice")
        given[key] = at > 0 ? substr(word[i], at + 1) : ""
        if (word[i] == "folds-case") text = text ", .folds_case = true"
        else if (word[i] == "not-on-gpu") text = text ", .not_on_gpu = true"
        else if (at == 0) mistake("\"" word[i] "\" is not of the form key=value; a remark follows \" : \"")
        else text = text ", " member_of(key, given[key])
    }
    if ((word[1] == "alias" || word[1] == "renamed") && !("to" in given)) mistake("it has no to=OPTION")
    if (word[1] == "by-value" && !("cases" in given)) mistake("it has no cases=")
    if (word[1] == "alias" && remark != "") mistake("an alias needs no remark; what has one is renamed")
    if (word[1] == "alias") remark = "it is --" given["to"]
    remark = spelled_out(remark)
    body = body "    {" text (remark != "" ? ", .remark = " quoted(remark) : "") "},\n"
    rows++
}
function end_section() {
    if (variable == "") return
    if (rows == 0) mistake("section " variable " has no rows")
    body = body "};\nconst mega_option_section " variable " = MEGA_SECTION(" title ", " variable "_rows);\n"
}
BEGIN {
    header = "options_impl.h" # of cli/
    answers["no-effect"] = "NO_EFFECT"; answers["not-built"] = "NOT_IMPLEMENTED"; answers["refused"] = "REFUSED"
    answers["alias"] = answers["renamed"] = answers["by-value"] = "RENAMED"
    members["default"] = "fallback"; members["to"] = "successor"; members["neutral"] = "neutral"
    members["cases"] = "cases"; members["alone"] = "alone"; members["choices"] = "choices"; members["dest"] = "dest"
    members["yaml"] = "yaml"
}
FILENAME ~ /\.h$/ {
    rest = $0
    while (match(rest, /(MEGA_(OPTION|RANGE)|FOR)_[A-Z0-9_]+/)) {
        word = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        enumerators[word] = 1
        if (word ~ /^FOR_/) commands[word] = 1
    }
    next
}
/^#/ || /^$/ { next }
{
    at = index($0 " ", " : ")
    head = at > 0 ? substr($0, 1, at - 1) : $0
    remark = at > 0 ? substr($0, at + 3) : ""
    if (at > 0 && remark == "") mistake("nothing follows \" : \"")
    split(head, first, " ")
    if (first[1] == "text") texts[first[2]] = remark
    else if (first[1] == "room") header = first[3]
    else if (first[1] == "section") {
        end_section()
        variable = first[2]; form = first[3]; title = quoted(remark); rows = 0
        if (form != "" && form != "yaml" && form != "json") mistake("a section of " form " is not known")
        body = body "\nstatic const mega_option_row " variable "_rows[] = {\n"
    } else row(head, remark)
}
END {
    end_section()
    if (failed) exit 1
    sub(/.*\//, "", FILENAME)
    printf "/* Made of src/foreign/%s by cmake/foreign.awk. */\n#include \"%s\"\n%s", FILENAME, header, body >output
}
