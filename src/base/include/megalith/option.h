/* A row of an option table. Each module defines its table next to the struct of values that it reads, and does not
 * depend on the code that fills it: config/ parses the command line and JSON with these rows, and a composition says
 * where each struct is.
 *
 * The values for "not given" are 0 for integers, NAN for floats, NULL for strings, and the first choice for choices. A
 * field for which 0 is also a meaningful value documents how to distinguish the two. Integers are int64_t and floats
 * are double throughout. */
#ifndef MEGALITH_OPTION_H
#define MEGALITH_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Strings given to one option, in order. Borrowed: they belong to whatever produced the list, usually
 * a mega_options. */
typedef struct mega_list {
    const char **item;
    size_t count;
} mega_list;

/* How the value of an option is written and stored. The field's type is in parentheses. */
typedef enum mega_option_kind {
    MEGA_OPTION_FLAG,   /* takes no value (bool, set to true) */
    MEGA_OPTION_OFF,    /* takes no value (bool, set to false) */
    MEGA_OPTION_BOOL,   /* true or false; the bare option means true (no field) */
    MEGA_OPTION_INT,    /* (int64_t) */
    MEGA_OPTION_FLOAT,  /* (double) */
    MEGA_OPTION_BYTES,  /* 8GB, 512MiB, 1e9 (int64_t) */
    MEGA_OPTION_STRING, /* (const char *), one of the choices if the row has choices */
    MEGA_OPTION_CHOICE, /* (an enum), the index in the choices */
    MEGA_OPTION_LIST,   /* one or more values (mega_list) */
    MEGA_OPTION_APPEND, /* one value, may be repeated (mega_list) */
    MEGA_OPTION_INT3,   /* three integers (int64_t[3]) */
    MEGA_OPTION_ANY     /* any number of values, or none (no field) */
} mega_option_kind;

/* What happens when an option is given. */
typedef enum mega_option_answer {
    MEGA_ANSWER_WORKS,
    MEGA_ANSWER_NO_EFFECT,       /* accepted; remark says why nothing changes */
    MEGA_ANSWER_NOT_IMPLEMENTED, /* an error, unless the value is one of `neutral`; remark says what to do */
    MEGA_ANSWER_REFUSED,         /* the same, for what will not be implemented; remark says why */
    MEGA_ANSWER_RENAMED          /* replaced by the option that `successor` or `cases` names */
} mega_option_answer;

typedef enum mega_option_range {
    MEGA_RANGE_ANY,
    MEGA_RANGE_POSITIVE,     /* > 0 */
    MEGA_RANGE_NOT_NEGATIVE, /* >= 0 */
    MEGA_RANGE_BELOW_ONE,    /* 0 <= x < 1 */
    MEGA_RANGE_FRACTION,     /* 0 <= x <= 1 */
    MEGA_RANGE_TOP_P,        /* 0 <= x <= 1; 0 disables it */
    MEGA_RANGE_SEED          /* 1 … 2^32-1 */
} mega_option_range;

/* Whether all ranks of a training must have the same value. Implemented options are compared before the first step by
 * default; a row whose value may differ between hosts sets MEGA_ALIKE_NOT_NEEDED. */
typedef enum mega_option_alike { MEGA_ALIKE_REQUIRED, MEGA_ALIKE_NOT_NEEDED } mega_option_alike;

/* Whether a resumed run reports that the option has changed since the run that wrote the checkpoint. */
typedef enum mega_option_resume {
    MEGA_RESUME_SILENT,   /* it changes no result, or has a message of its own */
    MEGA_RESUME_REPORTED, /* it changes the results from here on */
    MEGA_RESUME_SCHEDULE  /* it changes the results, unless the run uses the checkpoint's schedule */
} mega_option_resume;

#define MEGA_NO_FIELD SIZE_MAX

typedef struct mega_option_row {
    /* as typed, without the two dashes; "rl-*" matches all names with this prefix that have no row */
    const char *name;
    const char *dest; /* Megatron's destination; NULL: the name, with underscores for dashes */
    size_t field;     /* offset in the module's struct, or MEGA_NO_FIELD */
    /* bit set of the commands that accept it (the composition defines the bits); 0: those of its section */
    uint32_t commands;
    mega_option_kind kind;
    mega_option_answer answer;
    mega_option_range range;
    int64_t most; /* for MEGA_OPTION_INT: the greatest value that later code can compute with; 0: no limit */
    mega_option_alike alike;
    mega_option_resume resume;
    bool is_of_argv; /* not a JSON key: it is only meaningful on the command line of one start */
    /* "" is a valid value; other options reject it, since it is what an unset shell variable expands to */
    bool takes_empty;
    bool folds_case;             /* words of choices, cases and neutral, also in upper or lower case */
    const char *fallback;        /* default as typed; NULL: none */
    const char *choices;         /* "constant|linear|cosine" */
    const char *not_implemented; /* choices that are known but not implemented yet, same form */
    /* for MEGA_ANSWER_NOT_IMPLEMENTED and _REFUSED: values that change nothing, same form; "=num-attention-heads": the
     * value of that option */
    const char *neutral;
    /* for RENAMED: "lr-warmup-fraction" receives the value; "a=1;b" sets a and passes the value to b */
    const char *successor;
    /* for RENAMED, by value: "bf16:bf16|cosine:lr-decay-style=cosine|no:"; other values are not implemented */
    const char *cases;
    const char *alone; /* for NO_EFFECT: the option (--…-parallel-size) whose number of ranks must be 1 */
    /* for NO_EFFECT and RENAMED by value: it asks for memory of the host, unless its value is false, none or the like,
     * and is refused where a GPU computes */
    bool not_on_gpu;
    const char *help;  /* meaning */
    const char *value; /* name of its value in --help; NULL: "VALUE" */
    const char
        *json; /* path in a DeepSpeed JSON; of an array element, "betas[0]"; several: "bf16.enabled|bfloat16.enabled" */
    const char *yaml; /* its path in the YAML of Accelerate, in the same form */
    /* why it has no effect; what to use instead of an option that is not implemented; how its name changed; with
     * `alone`, what to do if there is more than 1 rank */
    const char *remark;
} mega_option_row;

/* Rows of one module under one title of --help. */
typedef struct mega_option_section {
    const char *title;
    const mega_option_row *rows;
    size_t count;
} mega_option_section;

/* A row for an implemented option: its name, its field in `struct_`, its kind. */
#define MEGA_OPTION(struct_, name_, field_, kind_) \
    .name = (name_), .dest = #field_, .field = offsetof(struct_, field_), .kind = (kind_), .answer = MEGA_ANSWER_WORKS
/* The remark of a row that is only another name for an option: "it is --lr". */
#define MEGA_ALIAS_REMARK  "it is --"
#define MEGA_COUNT(array_) (sizeof(array_) / sizeof(array_)[0])
/* clang-format off */
#define MEGA_SECTION(title_, rows_) {(title_), (rows_), MEGA_COUNT(rows_)}
/* clang-format on */

#endif
