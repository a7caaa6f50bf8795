/* A position in a valid JSON text. It moves in parallel with the tree of jansson, which has no line numbers: members of
 * an object are in the tree in the order of the text. */
#ifndef MEGA_JSON_SCAN_H
#define MEGA_JSON_SCAN_H

typedef struct json_scan {
    const char *at;
    int line; /* line number of `at` */
} json_scan;

/* Skips a string; `at` is its first quotation mark. */
void json_scan_pass_string(json_scan *s);
/* Skips a value, including everything inside it. */
void json_scan_pass_value(json_scan *s);
/* Skips one of `{ } [ ] , :` and the white space around it. */
void json_scan_pass_mark(json_scan *s, char mark);

#endif
