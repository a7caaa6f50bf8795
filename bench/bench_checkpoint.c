/* Measures writing and reading the full state of a GPT-2 124M (weights and both moments in fp32, random bits that do
 * not compress), next to dd on the same disk. dd uses bs=16M and fsync; both sides read after the files were dropped
 * from the page cache. Each pair of measurements runs buffered and direct dd and counts the faster one.
 *   bench_checkpoint [FOLDER [PAIRS]] */
#include "bench_kit.h"
#include "megalith/checkpoint.h"
#include "megalith/file.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include "megalith/threads.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LAYERS = 12, HIDDEN = 768, FFN = 3072, POSITIONS = 1024, VOCAB = 50257, TENSORS = 4 + 12 * LAYERS, PAIRS = 7 };

typedef struct network {
    mega_param param[TENSORS];
    mega_state_tensor weight[TENSORS], moment[2 * TENSORS];
    int count;
    void *memory;
    size_t bytes;
} network;

static void need(mega_status st)
{
    if (st == MEGA_OK) return;
    fprintf(stderr, "bench_checkpoint: %s\n", mega_error_message());
    exit(1);
}

static void add(network *n, const char *name, int64_t rows, int64_t cols, bool turned)
{
    mega_param *p = &n->param[n->count++];
    snprintf(p->name, sizeof p->name, "transformer.%s", name);
    p->num_dims = cols > 0 ? 2 : 1;
    p->shape[0] = p->true_shape[0] = rows;
    p->shape[1] = p->true_shape[1] = cols;
    p->transposed_in_file = turned;
    n->bytes += 3 * 4 * (size_t)(rows * (cols > 0 ? cols : 1));
}

static void add_layer(network *n, int layer)
{
    static const struct {
        const char *name;
        int64_t rows, cols;
    } row[] = {{"ln_1.weight", HIDDEN, 0},
               {"ln_1.bias", HIDDEN, 0},
               {"attn.c_attn.weight", 3 * HIDDEN, HIDDEN},
               {"attn.c_attn.bias", 3 * HIDDEN, 0},
               {"attn.c_proj.weight", HIDDEN, HIDDEN},
               {"attn.c_proj.bias", HIDDEN, 0},
               {"ln_2.weight", HIDDEN, 0},
               {"ln_2.bias", HIDDEN, 0},
               {"mlp.c_fc.weight", FFN, HIDDEN},
               {"mlp.c_fc.bias", FFN, 0},
               {"mlp.c_proj.weight", HIDDEN, FFN},
               {"mlp.c_proj.bias", HIDDEN, 0}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char name[64];
        snprintf(name, sizeof name, "h.%d.%s", layer, row[i].name);
        add(n, name, row[i].rows, row[i].cols, row[i].cols > 0);
    }
}

static void make(network *n)
{
    add(n, "wte.weight", VOCAB, HIDDEN, false);
    add(n, "wpe.weight", POSITIONS, HIDDEN, false);
    for (int l = 0; l < LAYERS; l++) add_layer(n, l);
    add(n, "ln_f.weight", HIDDEN, 0, false);
    add(n, "ln_f.bias", HIDDEN, 0, false);
    need(mega_pages_alloc(&n->memory, n->bytes, "the state"));
    uint8_t *at = n->memory;
    for (int i = 0; i < 3 * n->count; i++) {
        const int of = i % n->count, k = i / n->count - 1;
        const mega_param *p = &n->param[of];
        mega_state_tensor *t = k < 0 ? &n->weight[of] : &n->moment[2 * of + k];
        *t = (mega_state_tensor){.name = p->name, .param = p, .data = at};
        at += 4 * (size_t)(p->shape[0] * (p->num_dims == 2 ? p->shape[1] : 1));
        if (k < 0) continue;
        t->name = mega_format("%s.%s", k == 0 ? "exp_avg" : "exp_avg_sq", p->name);
        if (t->name == NULL) exit(1);
    }
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < n->bytes / 8; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        memcpy((uint8_t *)n->memory + 8 * i, &x, 8);
    }
}

static void save(const network *n, const char *folder)
{
    static const mega_model_shape shape = {.num_layers = LAYERS,
                                           .hidden = HIDDEN,
                                           .ffn_hidden = FFN,
                                           .heads = 12,
                                           .positions = POSITIONS,
                                           .vocab = VOCAB,
                                           .norm_epsilon = 1e-5,
                                           .init_std = 0.02,
                                           .eos = 50256};
    const mega_checkpoint_save v = {.folder = folder,
                                    .iteration = 1,
                                    .shape = &shape,
                                    .acc = MEGA_F32,
                                    .save_dtype = MEGA_F32,
                                    .weights = n->weight,
                                    .moments = n->moment,
                                    .num_weights = n->count,
                                    .num_moments = 2 * n->count,
                                    .run_json = "{\"iteration\": 1}"};
    need(mega_checkpoint_write(&v));
}

static void load(network *n, const char *folder, mega_team *team)
{
    mega_checkpoint *c = NULL;
    need(mega_checkpoint_open_team(folder, false, team, &c));
    need(mega_checkpoint_read_weights(c, n->weight, n->count, MEGA_F32));
    need(mega_checkpoint_read_moments(c, n->moment, 2 * n->count, MEGA_F32));
    mega_checkpoint_close(c);
}

/* Drops the file from the page cache; it has been synced, so all its pages can go. */
static void drop(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0) perror(path), exit(1);
    close(fd);
}

/* Returns the seconds that a dd takes. */
static double dd(const char *from, const char *to, const char *flags)
{
    char command[9000];
    snprintf(command, sizeof command, "dd if='%s' of='%s' bs=16M %s status=none", from, to, flags);
    const double began = mega_time_now();
    if (system(command) != 0) fprintf(stderr, "bench_checkpoint: failed: %s\n", command), exit(1);
    return mega_time_now() - began;
}

static void show(const char *name, double *ratio, double *ours, double *theirs, int pairs, double bytes)
{
    bench_sort(ratio, pairs);
    bench_sort(ours, pairs);
    bench_sort(theirs, pairs);
    printf("RESULT %s %.3f ratio %.2f GB in %.2f s (median), faster dd of the pair %.2f s; median of %d pairs, %.3f to "
           "%.3f\n",
           name, ratio[pairs / 2], 1e-9 * bytes, ours[pairs / 2], theirs[pairs / 2], pairs, ratio[0], ratio[pairs - 1]);
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

int main(int argc, char **argv)
{
    const char *base = argc > 1 ? argv[1] : "build/bench";
    const int wanted = argc > 2 ? atoi(argv[2]) : PAIRS, pairs = wanted < 1 ? 1 : wanted > 64 ? 64 : wanted;
    static network n;
    double write[64], ours_w[64], dd_w[64], read[64], ours_r[64], dd_r[64];
    char folder[2048], source[2100], copy[2100], iteration[2100];
    snprintf(folder, sizeof folder, "%s/bench_checkpoint.%ld", base, (long)getpid());
    snprintf(source, sizeof source, "%s/source", folder);
    snprintf(copy, sizeof copy, "%s/copy", folder);
    snprintf(iteration, sizeof iteration, "%s/save/iter_0000001", folder);
    need(mega_folder_create(folder));
    make(&n);
    mega_team *team;
    need(mega_team_create(mega_default_threads(), &team));
    mega_writer *w;
    need(mega_writer_create(source, &w));
    need(mega_writer_write(w, n.memory, n.bytes));
    need(mega_writer_close(w, true));
    char save_folder[2100];
    snprintf(save_folder, sizeof save_folder, "%s/save", folder);
    for (int i = 0; i < pairs; i++) {
        dd(source, "/dev/null", ""); /* read it into the page cache */
        double began = mega_time_now();
        save(&n, save_folder);
        ours_w[i] = mega_time_now() - began;
        dd_w[i] = least(dd(source, copy, "conv=fsync"), dd(source, copy, "conv=fsync oflag=direct"));
        write[i] = dd_w[i] / ours_w[i];
        drop(iteration, "model.safetensors");
        drop(iteration, "state/optimizer.safetensors");
        drop(folder, "source");
        began = mega_time_now();
        load(&n, save_folder, team);
        ours_r[i] = mega_time_now() - began;
        dd_r[i] = dd(source, "/dev/null", "");
        drop(folder, "source");
        dd_r[i] = least(dd_r[i], dd(source, "/dev/null", "iflag=direct"));
        read[i] = dd_r[i] / ours_r[i];
        fprintf(stderr, "pair %d: write %.2f s, dd %.2f s; read %.2f s, dd %.2f s\n", i, ours_w[i], dd_w[i], ours_r[i],
                dd_r[i]);
    }
    show("checkpoint_write_of_dd", write, ours_w, dd_w, pairs, (double)n.bytes);
    show("checkpoint_read_of_dd", read, ours_r, dd_r, pairs, (double)n.bytes);
    need(mega_tree_remove(folder));
    mega_team_destroy(team);
    for (int i = 0; i < 2 * n.count; i++) mega_free((void *)(uintptr_t)n.moment[i].name);
    mega_pages_free(n.memory, n.bytes);
    return 0;
}
