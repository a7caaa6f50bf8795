/* A GPT-2 of one layer for the tests of this room: hand-made records, values from Philox. */
#ifndef MEGALITH_CKPT_TESTS_TINY_H
#define MEGALITH_CKPT_TESTS_TINY_H

#include "kit.h"
#include "megalith/checkpoint.h"
#include "megalith/file.h"
#include "megalith/log.h"
#include "megalith/memory.h"

#include <stdio.h>
#include <string.h>

enum {
    TINY_HIDDEN = 4,
    TINY_HEADS = 2,
    TINY_POSITIONS = 3,
    TINY_VOCAB = 257, /* the byte tokenizer's */
    TINY_PADDED = 264,
    TINY_FFN = 6,
    TINY_TENSORS = 16
};

typedef struct tiny {
    mega_dtype acc;
    mega_param param[TINY_TENSORS];
    mega_state_tensor weight[TINY_TENSORS], moment[2 * TINY_TENSORS];
    char moment_name[2 * TINY_TENSORS][MEGA_PARAM_NAME + 16];
} tiny;

static const mega_model_shape tiny_shape = {.num_layers = 1,
                                            .hidden = TINY_HIDDEN,
                                            .ffn_hidden = TINY_FFN,
                                            .heads = TINY_HEADS,
                                            .positions = TINY_POSITIONS,
                                            .vocab = TINY_VOCAB,
                                            .norm_epsilon = 1e-5,
                                            .attention_dropout = 0.1,
                                            .hidden_dropout = 0.0,
                                            .init_std = 0.02,
                                            .eos = 256};

static inline int64_t tiny_elements(const mega_param *p)
{
    return p->shape[0] * (p->num_dims == 2 ? p->shape[1] : 1);
}

static inline double tiny_get(const mega_state_tensor *t, mega_dtype acc, int64_t i)
{
    return acc == MEGA_F64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

/* Random values in the real part of the tensor, zeros in the padding. */
static inline void tiny_fill(mega_state_tensor *t, mega_dtype acc, uint32_t seed)
{
    const mega_param *p = t->param;
    const int64_t n = tiny_elements(p), pitch = p->num_dims == 2 ? p->shape[1] : p->shape[0];
    float *random = mega_malloc((size_t)n * sizeof *random);
    assert_non_null(random);
    mega_kit_normal(random, n, seed);
    for (int64_t i = 0; i < n; i++) {
        const bool padding = p->num_dims == 2 && i / pitch >= p->true_shape[0];
        const double x = padding ? 0.0 : (double)random[i] * (acc == MEGA_F64 ? 1.0 + 1e-12 : 1.0);
        if (acc == MEGA_F64) ((double *)t->data)[i] = x;
        else
            ((float *)t->data)[i] = (float)x;
    }
    mega_free(random);
}

/* Every value differs between seeds. */
static inline void tiny_init(tiny *m, mega_dtype acc, uint32_t seed)
{
    static const struct {
        const char *name;
        int64_t out, in;
        bool turned;
    } row[TINY_TENSORS] = {
        {"transformer.wte.weight", TINY_PADDED, TINY_HIDDEN, false},
        {"transformer.wpe.weight", TINY_POSITIONS, TINY_HIDDEN, false},
        {"transformer.h.0.ln_1.weight", TINY_HIDDEN, 0, false},
        {"transformer.h.0.ln_1.bias", TINY_HIDDEN, 0, false},
        {"transformer.h.0.attn.c_attn.weight", 3 * TINY_HIDDEN, TINY_HIDDEN, true},
        {"transformer.h.0.attn.c_attn.bias", 3 * TINY_HIDDEN, 0, false},
        {"transformer.h.0.attn.c_proj.weight", TINY_HIDDEN, TINY_HIDDEN, true},
        {"transformer.h.0.attn.c_proj.bias", TINY_HIDDEN, 0, false},
        {"transformer.h.0.ln_2.weight", TINY_HIDDEN, 0, false},
        {"transformer.h.0.ln_2.bias", TINY_HIDDEN, 0, false},
        {"transformer.h.0.mlp.c_fc.weight", TINY_FFN, TINY_HIDDEN, true},
        {"transformer.h.0.mlp.c_fc.bias", TINY_FFN, 0, false},
        {"transformer.h.0.mlp.c_proj.weight", TINY_HIDDEN, TINY_FFN, true},
        {"transformer.h.0.mlp.c_proj.bias", TINY_HIDDEN, 0, false},
        {"transformer.ln_f.weight", TINY_HIDDEN, 0, false},
        {"transformer.ln_f.bias", TINY_HIDDEN, 0, false},
    };
    *m = (tiny){.acc = acc};
    for (int i = 0; i < TINY_TENSORS; i++) {
        mega_param *p = &m->param[i];
        snprintf(p->name, sizeof p->name, "%s", row[i].name);
        p->num_dims = row[i].in > 0 ? 2 : 1;
        p->shape[0] = p->true_shape[0] = row[i].out;
        p->shape[1] = p->true_shape[1] = row[i].in;
        if (i == 0) p->true_shape[0] = TINY_VOCAB;
        p->transposed_in_file = row[i].turned;
        const size_t bytes = (size_t)tiny_elements(p) * mega_dtype_size(acc);
        m->weight[i] = (mega_state_tensor){.name = p->name, .param = p, .data = mega_malloc(bytes)};
        for (int k = 0; k < 2; k++) {
            char *name = m->moment_name[2 * i + k];
            snprintf(name, sizeof m->moment_name[0], "%s.%s", k == 0 ? "exp_avg" : "exp_avg_sq", row[i].name);
            m->moment[2 * i + k] = (mega_state_tensor){.name = name, .param = p, .data = mega_malloc(bytes)};
            tiny_fill(&m->moment[2 * i + k], acc, seed * 1000 + 100 + (uint32_t)(2 * i + k));
        }
        tiny_fill(&m->weight[i], acc, seed * 1000 + (uint32_t)i);
    }
}

static inline void tiny_fini(tiny *m)
{
    for (int i = 0; i < TINY_TENSORS; i++) mega_free(m->weight[i].data);
    for (int i = 0; i < 2 * TINY_TENSORS; i++) mega_free(m->moment[i].data);
}

/* Overwrites all values with wrong ones. */
static inline void tiny_spoil(tiny *m)
{
    for (int i = 0; i < 3 * TINY_TENSORS; i++) {
        const mega_state_tensor *t = i < TINY_TENSORS ? &m->weight[i] : &m->moment[i - TINY_TENSORS];
        memset(t->data, 0x7b, (size_t)tiny_elements(t->param) * mega_dtype_size(m->acc));
    }
}

static inline bool tiny_equal(const mega_state_tensor *a, const mega_state_tensor *b, int count, mega_dtype acc)
{
    for (int i = 0; i < count; i++) {
        if (memcmp(a[i].data, b[i].data, (size_t)tiny_elements(a[i].param) * mega_dtype_size(acc)) != 0) return false;
    }
    return true;
}

static inline mega_checkpoint_save tiny_save(const tiny *m, const char *folder, int64_t iteration, const char *run_json)
{
    return (mega_checkpoint_save){.folder = folder,
                                  .iteration = iteration,
                                  .shape = &tiny_shape,
                                  .acc = m->acc,
                                  .save_dtype = MEGA_F32,
                                  .weights = m->weight,
                                  .moments = m->moment,
                                  .num_weights = TINY_TENSORS,
                                  .num_moments = 2 * TINY_TENSORS,
                                  .run_json = run_json,
                                  .model_card = "# A test\n"};
}

/* The last warnings, for tests that expect one. */
static char tiny_warned[8192];
static inline void tiny_keep_warning(void *user, mega_log_level level, const char *line)
{
    (void)user;
    if (level != MEGA_LOG_WARN || strlen(tiny_warned) + strlen(line) + 2 > sizeof tiny_warned) return;
    strcat(tiny_warned, line);
    strcat(tiny_warned, "\n");
}

static inline void tiny_ok(mega_status st)
{
    if (st != MEGA_OK) fail_msg("%s (%s)", mega_error_message(), mega_error_where());
}

static inline void tiny_said(mega_status st, mega_status expected, const char *const *pieces)
{
    if (st != expected)
        fail_msg("status %s, expected %s: %s", mega_status_name(st), mega_status_name(expected), mega_error_message());
    for (; *pieces != NULL; pieces++) {
        if (strstr(mega_error_message(), *pieces) == NULL)
            fail_msg("\"%s\" is not in: %s", *pieces, mega_error_message());
    }
}
#define TINY_SAID(st, expected, ...) tiny_said(st, expected, (const char *const[]){__VA_ARGS__, NULL})

/* The temporary name that process `pid` of this host would use. */
static inline void temporary_name_of(char out[160], const char *stem, const char *mark, pid_t pid)
{
    char *own = mega_owned_path(stem, mark);
    snprintf(out, 160, "%.*s-%ld", (int)(strrchr(own, '-') - own), own, (long)pid);
    mega_free(own);
}

static inline bool is_in_folder(const char *folder, const char *name)
{
    const char *path = mega_kit_path(folder, name);
    return mega_file_exists(path) || mega_folder_exists(path);
}

#endif
