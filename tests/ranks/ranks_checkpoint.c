/* Tests checkpoints over ranks, in double with the plain kernels.
 *
 *   ranks_checkpoint save FOLDER [tp=N] [pp=N] [zero=N] [muon=1] [ep=N experts=1|2]   half of the steps, then saves
 *   ranks_checkpoint resume FOLDER[,FOLDER…] TO [the same settings]
 *       loads each folder: saving it again in this layout must give the same bytes, and the second half of the steps
 *       must have the losses of an uninterrupted run on one rank, which this program computes itself
 *
 * experts: 1 each with tensors of its own in the file; 2 in one tensor, with what gpt_oss has. */
#include "engine_run.h"
#include "kinds_networks.h"
#include "megalith/file.h"
#include "megalith/memory.h"
#include "megalith/transformer.h"
#include "rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 12, STEPS = 6, HALF = STEPS / 2 };

typedef struct setting {
    int tp, pp, zero, muon, ep, experts;
} setting;

static setting read_setting(int argc, char **argv, int from)
{
    setting s = {.tp = 1, .pp = 1, .ep = 1};
    const struct {
        const char *name;
        int *number;
    } known[] = {{"tp=", &s.tp},     {"pp=", &s.pp}, {"zero=", &s.zero},
                 {"muon=", &s.muon}, {"ep=", &s.ep}, {"experts=", &s.experts}};
    for (int i = from; i < argc; i++) {
        size_t k = 0;
        while (k < sizeof known / sizeof *known && strncmp(argv[i], known[k].name, strlen(known[k].name)) != 0) k++;
        if (k == sizeof known / sizeof *known) {
            fprintf(stderr, "unknown setting %s\n", argv[i]);
            exit(2);
        }
        *known[k].number = atoi(argv[i] + strlen(known[k].name));
    }
    return s;
}

typedef struct run {
    mega_transformer gpt;
    mega_engine *engine;
    double loss[STEPS], norm[STEPS];
} run;

/* Opens a run. With experts it is of no family, so that no config.json describes it. The padding of the vocabulary
 * differs between layouts, so no file may contain it. */
static void open_run(run *r, const setting *s, mega_world *world)
{
    const int tp = world == NULL ? 1 : s->tp, pp = world == NULL ? 1 : s->pp, dp = mega_world_size(world) / (tp * pp);
    r->gpt = engine_run_gpt();
    if (s->experts) r->gpt.net = s->experts == 1 ? experts : gpt_oss;
    r->gpt.padded_vocab = 56 + 8 * (tp - 1);
    r->gpt.attention_dropout = r->gpt.hidden_dropout = 0.1;
    mega_engine_options o = engine_run_options(BATCH, 1, 3e-4);
    o.compute = MEGA_F64;
    if (s->muon) engine_run_optimizer(&o.optimizer, MEGA_OPTIMIZER_MUON);
    o.world = world;
    o.layout.tp = tp;
    o.layout.pp = pp;
    o.layout.ep = world == NULL ? 1 : s->ep;
    o.batch.micro_step = dp;
    o.zero_stage = world == NULL ? 0 : s->zero;
    o.bucket_elements = 5000;
    o.no_evaluate = true;
    need(gpt_engine_create(&r->engine, &r->gpt, &o));
    need(mega_engine_allocate(r->engine));
}

static void steps(run *r, int from, int to)
{
    for (int i = from; i < to; i++) {
        mega_step_result result;
        mega_batch *b = mega_engine_batch(r->engine);
        for (int64_t k = 0; k < mega_batch_num_samples(b); k++)
            engine_run_fill(b, k, mega_sample_index(mega_batch_sample(b, k)));
        need(mega_engine_train_batch(r->engine, &result));
        r->loss[i] = result.loss;
        r->norm[i] = result.grad_norm;
    }
}

static void save(run *r, const char *folder)
{
    const bool has_family = r->gpt.net.experts.count == 0;
    mega_model_shape shape;
    mega_transformer_to_shape(&r->gpt, 0, &shape);
    need(mega_engine_save(
        r->engine,
        &(mega_engine_save_options){.folder = folder, .shape = has_family ? &shape : NULL, .save_dtype = MEGA_F32}));
}

static int compare_file(const char *a, const char *b, const char *name)
{
    char *path[2] = {mega_format("%s/iter_%07d/%s", a, HALF, name), mega_format("%s/iter_%07d/%s", b, HALF, name)};
    char *text[2];
    size_t size[2];
    for (int i = 0; i < 2; i++) need(mega_file_read(path[i], &text[i], &size[i]));
    const int differs = size[0] != size[1] || memcmp(text[0], text[1], size[0]) != 0;
    if (differs) fprintf(stderr, "%s and %s differ\n", path[0], path[1]);
    for (int i = 0; i < 2; i++) {
        mega_free(text[i]);
        mega_free(path[i]);
    }
    return differs;
}

/* Compares two folders. run.json does not depend on the layout either, as the engine writes it. */
static int compare_folders(const char *a, const char *b)
{
    static const char *const files[] = {"config.json",    "model.safetensors",           "state/masters.safetensors",
                                        "state/run.json", "state/optimizer.safetensors", "state/checksums.json"};
    int differ = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) differ += compare_file(a, b, files[i]);
    return differ;
}

static int resume(const char *from, const char *to, const run *one, const setting *s, mega_world *world)
{
    run r;
    mega_checkpoint *c = NULL;
    mega_engine_loaded loaded;
    int failures = 0;
    open_run(&r, s, world);
    need(mega_checkpoint_open_ranks(from, false, NULL, world != NULL ? mega_world_comm(world) : NULL, &c));
    need(mega_engine_load(r.engine, c, &(mega_engine_load_options){.finetune = false}, &loaded));
    mega_checkpoint_close(c);
    save(&r, to);
    if (mega_world_rank(world) == 0) failures += compare_folders(from, to);
    steps(&r, HALF, STEPS);
    for (int i = HALF; i < STEPS; i++) {
        const double loss = fabs(r.loss[i] - one->loss[i]) / one->loss[i];
        const double norm = fabs(r.norm[i] - one->norm[i]) / one->norm[i];
        if (loss <= 1e-8 && norm <= 1e-8 && loaded.resumed && loaded.optimizer) continue;
        fprintf(stderr, "from %s, step %d: loss %.12g, uninterrupted %.12g; norm %.12g, uninterrupted %.12g\n", from, i,
                r.loss[i], one->loss[i], r.norm[i], one->norm[i]);
        failures++;
    }
    mega_engine_destroy(r.engine);
    return failures;
}

static int resume_all(char *from, const char *to, const setting *s, mega_world *world)
{
    run one;
    char *rest = NULL;
    int failures = 0;
    open_run(&one, s, NULL);
    need(mega_engine_initialize(one.engine, 1234));
    steps(&one, 0, STEPS);
    for (char *folder = strtok_r(from, ",", &rest); folder != NULL; folder = strtok_r(NULL, ",", &rest))
        failures += resume(folder, to, &one, s, world);
    mega_engine_destroy(one.engine);
    return failures;
}

int main(int argc, char **argv)
{
    mega_world *world;
    const bool saves = argc > 2 && strcmp(argv[1], "save") == 0;
    if (argc < 3 + !saves) return 2;
    const setting s = read_setting(argc, argv, 3 + !saves);
    need(mega_world_create(NULL, &world));
    int failures = 0;
    if (saves) {
        run r;
        open_run(&r, &s, world);
        need(mega_engine_initialize(r.engine, 1234));
        steps(&r, 0, HALF);
        save(&r, argv[2]);
        mega_engine_destroy(r.engine);
    } else {
        failures = resume_all(argv[2], argv[3], &s, world);
    }
    mega_world_destroy(world);
    return failures == 0 ? 0 : 1;
}
