/* Skips parts of a JSON text that is known to be valid, and counts its lines. */
#include "json_scan.h"
#include <ctype.h>
#include <string.h>

static void pass_space(json_scan *s)
{
    for (; isspace((unsigned char)*s->at); s->at++) s->line += *s->at == '\n';
}

void json_scan_pass_string(json_scan *s)
{
    for (s->at++; *s->at != '"'; s->at++) s->at += *s->at == '\\';
    s->at++;
}

void json_scan_pass_value(json_scan *s)
{
    int depth = 0;
    do {
        pass_space(s);
        if (*s->at == '"') json_scan_pass_string(s);
        else if (*s->at == '{' || *s->at == '[')
            depth++, s->at++;
        else if (*s->at == '}' || *s->at == ']')
            depth--, s->at++;
        else if (*s->at == ',' || *s->at == ':')
            s->at++;
        else
            s->at += strcspn(s->at, ",:]} \t\r\n");
    } while (depth > 0 && *s->at != '\0');
}

void json_scan_pass_mark(json_scan *s, char mark)
{
    pass_space(s);
    if (*s->at == mark) s->at++;
    pass_space(s);
}
