/* A row of a table of options. Every room writes the table of what it reads beside its struct of values, without
 * knowing who fills that in: config/ reads words and JSON by such rows, and finds the values where a composition says
 * that the struct lies.
 *
 * "Not given" is 0 for integers, NAN for floats, NULL for strings, the first choice for choices; a field that can be
 * told apart from a wanted 0 says so. Integers are int64_t and floats double throughout.
 */
#ifndef MEGALITH_OPTION_H
#define MEGALITH_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Strings given to one option, in order. Borrowed from whoever read them. */
typedef struct mega_list {
    const char **item;
    size_t count;
} mega_list;

/* How the value of an option is written and stored. The field's type is in parentheses. */
typedef enum mega_option_kind {
    MEGA_OPTION_FLAG,   /* no value (bool, set to true) */
    MEGA_OPTION_OFF,    /* no value (bool, set to false) */
    MEGA_OPTION_BOOL,   /* true or false, which alone stands for true (no field) */
    MEGA_OPTION_INT,    /* (int64_t) */
    MEGA_OPTION_FLOAT,  /* (double) */
    MEGA_OPTION_BYTES,  /* 8G, 512M, 1e9 (int64_t) */
    MEGA_OPTION_STRING, /* (const char *), one of the choices where there are any */
    MEGA_OPTION_CHOICE, /* (an enum), the index in the choices */
    MEGA_OPTION_LIST,   /* one or more values (mega_list) */
    MEGA_OPTION_APPEND, /* one value, may be repeated (mega_list) */
    MEGA_OPTION_INT3,   /* three integers (int64_t[3]) */
    MEGA_OPTION_ANY     /* no value or several (no field) */
} mega_option_kind;

/* What happens when an option is given. */
typedef enum mega_option_answer {
    MEGA_ANSWER_WORKS,
    MEGA_ANSWER_NO_EFFECT, /* accepted; remark says why nothing changes */
    MEGA_ANSWER_NOT_BUILT, /* an error, unless the value is one of `neutral`; remark says what to do */
    MEGA_ANSWER_RENAMED    /* successor takes its place */
} mega_option_answer;

typedef enum mega_option_range {
    MEGA_RANGE_ANY,
    MEGA_RANGE_POSITIVE,     /* > 0 */
    MEGA_RANGE_NOT_NEGATIVE, /* >= 0 */
    MEGA_RANGE_BELOW_ONE,    /* 0 <= x < 1 */
    MEGA_RANGE_FRACTION,     /* 0 <= x <= 1 */
    MEGA_RANGE_TOP_P,        /* 0 <= x <= 1, 0 is off */
    MEGA_RANGE_SEED          /* 1 … 2^32-1 */
} mega_option_range;

/* Whether the ranks of one training must have the same value. What works is compared before the first step, so that a
 * new row needs no thought; a row of which a host may have its own value says so. */
typedef enum mega_option_alike { MEGA_ALIKE_REQUIRED, MEGA_ALIKE_NOT_NEEDED } mega_option_alike;

/* Whether a resumed run reports that the option had another value in the run that wrote its checkpoint. */
typedef enum mega_option_resume {
    MEGA_RESUME_SILENT,   /* it changes no number, or has a message of its own */
    MEGA_RESUME_REPORTED, /* it changes the numbers from here on */
    MEGA_RESUME_SCHEDULE  /* the same, unless the run takes the schedule of the checkpoint */
} mega_option_resume;

#define MEGA_NO_FIELD SIZE_MAX

typedef struct mega_option_row {
    const char *name;  /* as typed, without the two dashes; "rl-*" stands for all that begin so and have no row */
    const char *dest;  /* Megatron's destination; NULL: the name with underscores */
    size_t field;      /* offset in the room's struct, or MEGA_NO_FIELD */
    uint32_t commands; /* that take it, a set whose bits the composition names; 0: those of its section there */
    mega_option_kind kind;
    mega_option_answer answer;
    mega_option_range range;
    int64_t most; /* of a MEGA_OPTION_INT: the greatest value that later code can compute with; 0: any */
    mega_option_alike alike;
    mega_option_resume resume;
    bool is_of_argv;       /* no key of a JSON: it belongs to the words of one start */
    bool takes_empty;      /* "" is a value; elsewhere it is what an unset variable of a script leaves */
    const char *fallback;  /* default as typed; NULL: none */
    const char *choices;   /* "constant|linear|cosine" */
    const char *unbuilt;   /* choices that are understood but not built yet, same form */
    const char *neutral;   /* not built: values that change nothing, same form; "=num-attention-heads": that option's */
    const char *successor; /* renamed: "lr-warmup-fraction" takes the value; "a=1;b" sets a and hands the value to b */
    const char *cases;     /* renamed, by its value: "bf16:bf16|cosine:lr-decay-style=cosine|no:"; else not built */
    const char *alone;     /* no effect: the number of ranks, --…-parallel-size, that must be 1 for it to have none */
    const char *help;      /* meaning */
    const char *value;     /* what its value is called in --help; NULL: "VALUE" */
    const char
        *json; /* its path in a DeepSpeed JSON; of an array, "betas[0]"; several: "bf16.enabled|bfloat16.enabled" */
    const char *yaml;   /* its path in the YAML of Accelerate, in the same form. Nothing reads that file yet */
    const char *remark; /* why there is no effect; what to use instead of what is not built; what changed its name;
                           with `alone`, what to do where that is more than 1 */
} mega_option_row;

/* Rows of one room under one title of --help. */
typedef struct mega_option_section {
    const char *title;
    const mega_option_row *rows;
    size_t count;
} mega_option_section;

/* A row that works: its name, its field in `struct_`, its kind. */
#define MEGA_OPTION(struct_, name_, field_, kind_) \
    .name = (name_), .dest = #field_, .field = offsetof(struct_, field_), .kind = (kind_), .answer = MEGA_ANSWER_WORKS
/* The remark of a row whose option only has another name here: "it is --lr". */
#define MEGA_ALIAS_REMARK  "it is --"
#define MEGA_COUNT(array_) (sizeof(array_) / sizeof(array_)[0])
/* clang-format off */
#define MEGA_SECTION(title_, rows_) {(title_), (rows_), MEGA_COUNT(rows_)}
/* clang-format on */

#ifdef __cplusplus
}
#endif

#endif
