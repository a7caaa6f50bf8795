/* A family of models in Hugging Face folders: a table of the keys of its config.json and the names of its tensors.
 * Reading and writing config.json both walk the table; model/block.c makes the model from the shape. To add a family:
 * one file in families/models/, and what docs/recipes.md, "A family", asks for. */
#ifndef MEGALITH_FAMILY_H
#define MEGALITH_FAMILY_H

#include "megalith/model_shape.h"
#include <stddef.h>

typedef enum mega_key_kind {
    MEGA_KEY_INT,        /* int64_t, 1 or more */
    MEGA_KEY_FLOAT,      /* double, from low to high */
    MEGA_KEY_BOOL,       /* bool; the opposite with `negated` */
    MEGA_KEY_ACTIVATION, /* mega_activation_kind, from any of the names that Hugging Face uses */
    MEGA_KEY_CHOICE,     /* an enumeration, by the names in `choices` */
    MEGA_KEY_FIXED       /* no field: a folder whose value differs from `fallback` is refused, naming the key */
} mega_key_kind;

/* A key of config.json. */
typedef struct mega_family_key {
    const char *key, *alias; /* alias: another spelling that is read but not written; NULL: none */
    mega_key_kind kind;
    size_t field;          /* offset in mega_model_shape */
    const char *fallback;  /* JSON: the value where the key is missing, the class default of transformers */
    const char *choices;   /* MEGA_KEY_CHOICE: "a|b", in the order of the enumeration */
    double low, high;      /* MEGA_KEY_FLOAT; 0 and 0: any number */
    bool negated, is_zero; /* is_zero: a double for which null means 0 */
    bool positive;         /* MEGA_KEY_FLOAT: above 0, for a field whose 0 means another thing than the number 0 */
    /* The value where it is null, computed from other keys; NULL: as if the key were missing. */
    int64_t (*derive)(const mega_model_shape *shape);
    bool null_if_derived; /* such a value is written as null */
    bool is_written;      /* MEGA_KEY_FIXED: also in the config.json that we write */
} mega_family_key;

/* How the rows of Q, K and V lie in files. */
typedef enum mega_qkv_order {
    MEGA_QKV_ONE,     /* one tensor, all of Q, then K, then V */
    MEGA_QKV_THREE,   /* three tensors */
    MEGA_QKV_BY_HEAD, /* one tensor; q, k and v of one head after another */
    MEGA_QKV_EITHER   /* MEGA_QKV_ONE where heads share keys and values, else MEGA_QKV_BY_HEAD */
} mega_qkv_order;

/* Names of parameters. Those of a layer follow its path after a dot; NULL where the family has no such parameter. */
typedef struct mega_family_names {
    const char *root, *block, *end; /* paths of the embedding, of block %d, and of the last norm and the head */
    const char *tokens, *positions, *embedding_norm;
    const char *final_norm, *head, *tied; /* head: an own table; tied: the table of tokens, seen from `end` */
    const char *norm_1, *norm_2;          /* before attention and MLP, or of the sums after them */
    const char *after_1, *after_2;        /* of the outputs of attention and MLP */
    const char *attention, *qkv, *out;    /* qkv and out follow `attention` after a dot */
    mega_qkv_order qkv_order;
    const char *q, *k, *v;       /* MEGA_QKV_THREE: tensors in the file, without ".weight" */
    const char *q_norm, *k_norm; /* follow `attention` */
    /* Latent attention: after the path of the layer. Without q_down, q is the tensor of queries. */
    const char *q_down, *q_latent_norm, *q_up, *kv_down, *kv_latent_norm, *kv_up;
    const char *up, *down, *gate_file, *up_file; /* gated: `up` holds gate and up, from these two tensors (without
                                                    ".weight") or, NULL, from one tensor of its own name */
    /* Experts; # is the number of one. The two below are files of `expert_up`, without ".weight". */
    const char *router, *expert_up, *expert_down, *expert_gate_file, *expert_up_file;
    /* Tensors that hold these weights of all experts, in the place of one tensor an expert; turned_stacks: they are
     * [in, out], and have rows of gate and up in turn. */
    const char *expert_up_stack, *expert_down_stack;
    bool turned_stacks;
    const char *sinks;       /* after the path of the layer */
    const char *choice_bias; /* after the path of the layer */
    /* The MLP beside the experts, as `up` to `up_file`; shared_router: the linear layer of its gate. */
    const char *shared_up, *shared_down, *shared_gate_file, *shared_up_file, *shared_router;
    const char *blend; /* of both (mega_blend) */
    bool transposed;   /* linear weights are [in, out] in files */
    /* Encoders; all but token_types follow `end`. head_bias: its whole name, or NULL for that of the head. */
    const char *token_types, *pooler, *sentence_head, *transform, *transform_norm, *head_bias;
    const char *classifier; /* after the pooler; NULL: no classifier of samples can be saved in this family */
} mega_family_names;

typedef struct hf_reader hf_reader;

typedef struct mega_family {
    const char *model_type;
    const char *const *architecture;    /* that may be read; the first is written, or that of `form`. Ends with NULL */
    const mega_family_key *const *keys; /* tables that each end with an empty row; ends with NULL */
    mega_network_shape net;             /* what all models of the family have in common */
    const mega_family_names *names;
    const char *rope_keys;  /* top-level keys of the rotation besides rope_theta, rope_scaling and rope_parameters, in
                                  blanks: " partial_rotary_factor " */
    double theta, fraction; /* class defaults; fraction 0: all channels */
    bool is_yarn;           /* the rotation is YaRN where config.json says none */
    bool has_mscales;       /* LongRoPE has short_mscale and long_mscale in the place of attention_factor */
    bool is_own;            /* transformers has no such model */
    const char *const *ignored; /* patterns (mega_family_matches) of tensors that may be present and are not read */
    const char *other_heads;    /* pattern of tensors that a new classifier leaves unread; NULL: none */
    /* Returns which architecture a shape is written as. NULL: the first. */
    int (*form)(const mega_model_shape *shape);
    /* Reads keys that are not rows, and checks the shape. NULL: nothing. */
    void (*finish)(hf_reader *r, mega_model_shape *shape);
    /* Passes further keys and their JSON to put. NULL: nothing. */
    void (*write)(const mega_model_shape *shape, void *user,
                  void (*put)(void *user, const char *key, const char *json));
} mega_family;

/* Ends with NULL; made of families/models/ by the build. */
extern const mega_family *const mega_families[];
/* Returns the family with this model_type, or NULL. */
const mega_family *mega_family_find(const char *model_type);
/* That of the shape; gpt2 if it names none. */
const mega_family *mega_family_of(const mega_network_shape *net);
/* Returns the first family whose config.json can say all of the shape, or NULL. shape->net.family counts for
 * nothing. */
const mega_family *mega_family_for(const mega_model_shape *shape);
/* Whether config.json of this family can say all of the shape. */
bool mega_family_can_hold(const mega_family *f, const mega_model_shape *shape);
/* Whether config.json of this family has a row for the key, of a value that is read. */
bool mega_family_has_key(const mega_family *f, const char *key);
/* Writes to `out` the name that a parameter of a mixture of experts has in a dense model of another family and the same
 * network: an expert's is that of the MLP. "": none, of a router. Returns false if it is unknown, or too long. */
bool mega_family_dense_name(const mega_family *mixture, const mega_family *dense, const char *name,
                            char out[MEGA_PARAM_NAME]);
/* Whether a text matches a pattern in which * stands for any text and # for a number. */
bool mega_family_matches(const char *pattern, const char *text);
#endif
