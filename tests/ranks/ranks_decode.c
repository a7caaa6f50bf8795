/* Pipeline stages work on the micro-batches of a generation at the same time, and the texts are those of one rank. In
 * each run every stage waits, at the micro-batch that it has when the pipeline is full, until all others are at theirs:
 * the linker redirects the engine's calls of mega_program_forward to the wrapper below (--wrap in cmake/tests.cmake).
 * If stages took turns, they would wait until the time limit.
 *
 *   ranks_decode STAGES TP CHUNKS MICRO_BATCHES FILE      FILE: new, for memory that the ranks share */
#include "engine_run.h"
#include "megalith/generate.h"
#include "megalith/memory.h"
#include "megalith/profile.h"
#include "rank.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { TEXTS = 8, LAYERS = 4, PREFILL = 4, NEW = 5, MOST_SECONDS = 60 };

static struct {
    mega_world *world;
    atomic_int *arrived; /* how often a stage was at its meeting; NULL: stages do not meet */
    int stage, stages, runs, passes;
    int met; /* meetings of this rank */
} meeting;

mega_status __real_mega_program_forward(mega_program *p, int slot);
mega_status __wrap_mega_program_forward(mega_program *p, int slot);

/* Waits until all stages are here, while messages go on. */
static void meet(void)
{
    const double began = mega_time_now();
    const int wanted = ++meeting.met * meeting.stages;
    atomic_fetch_add(meeting.arrived, 1);
    while (atomic_load(meeting.arrived) < wanted) {
        need(mega_comm_poll(meeting.world));
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        if (mega_time_now() - began < MOST_SECONDS) continue;
        fprintf(stderr, "stage %d works alone: %d of %d at meeting %d\n", meeting.stage,
                atomic_load(meeting.arrived) - wanted + meeting.stages, meeting.stages, meeting.met);
        exit(1);
    }
}

mega_status __wrap_mega_program_forward(mega_program *p, int slot)
{
    if (meeting.arrived == NULL) return __real_mega_program_forward(p, slot);
    const int pass = meeting.passes++ % meeting.runs; /* of this run of the program */
    if (pass == meeting.stages - 1 - meeting.stage) meet();
    return __real_mega_program_forward(p, slot);
}

typedef struct texts {
    int32_t prompt[TEXTS][ENGINE_RUN_SEQ], token[TEXTS][NEW];
    mega_generation text[TEXTS];
} texts;

static mega_engine *open_engine(const mega_transformer *gpt, const mega_layout_sizes *layout, int64_t micro_batches,
                                mega_language_model *m, mega_transformer_list *list)
{
    const int64_t samples = TEXTS / micro_batches;
    const mega_engine_options o = {.compute = MEGA_F64,
                                   .backend = MEGA_BACKEND_PLAIN,
                                   .world = layout != NULL ? meeting.world : NULL,
                                   .layout = layout != NULL ? *layout : (mega_layout_sizes){0},
                                   .stage_programs = layout != NULL ? (int)gpt->stage_chunks : 0,
                                   .micro_batch = samples,
                                   .micro_batches = micro_batches,
                                   .seq = ENGINE_RUN_SEQ,
                                   .prefill = PREFILL,
                                   .batch = {.global_batch = samples, .micro_step = samples}};
    mega_engine *e = NULL;
    need(mega_transformer_list_create(gpt, layout != NULL ? layout->pp : 1, list));
    *m = (mega_language_model){.model = mega_transformer_model(list),
                               .positions = gpt->positions,
                               .vocab = gpt->vocab,
                               .padded_vocab = gpt->padded_vocab};
    need(mega_engine_create(&(mega_setup){.model = &m->model, .mode = MEGA_GENERATE, .options = &o}, &e));
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 11));
    return e;
}

/* Prompts of 1 to 11 tokens: some end in the first chunk, some in the third. */
static void generate(mega_engine *e, const mega_language_model *m, texts *t)
{
    mega_generator *g = NULL;
    const mega_generation_rules rules = {.sampling = {.temperature = 1.5, .seed = 3}};
    for (int b = 0; b < TEXTS; b++) {
        for (int i = 0; i < ENGINE_RUN_SEQ; i++) t->prompt[b][i] = (5 + 7 * b + 3 * i * i) % ENGINE_RUN_VOCAB;
        t->text[b] = (mega_generation){.prompt = t->prompt[b],
                                       .prompt_count = 1 + b * 5 % 11,
                                       .max_new = NEW - b % 2,
                                       .index = (uint64_t)b,
                                       .tokens = t->token[b]};
    }
    need(mega_generator_create(e, m, &(mega_generator_options){.has_beams = true}, &g));
    need(mega_generator_run(g, t->text, TEXTS, &rules)); /* the first run of a program allocates */
    const uint64_t before = mega_alloc_count();
    need(mega_generator_run(g, t->text, TEXTS, &rules));
    if (mega_alloc_count() != before)
        need(
            MEGA_FAIL(MEGA_ERR_USAGE, "a run allocates memory (%lld times)", (long long)(mega_alloc_count() - before)));
    mega_generator_destroy(g);
}

static void share_memory(const char *path)
{
    const int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *meeting.arrived) != 0) {
        perror(path);
        exit(1);
    }
    meeting.arrived = mmap(NULL, sizeof *meeting.arrived, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (meeting.arrived != MAP_FAILED) return;
    perror(path);
    exit(1);
}

int main(int argc, char **argv)
{
    if (argc != 6) return 2;
    const mega_layout_sizes layout = {.pp = atoi(argv[1]), .tp = atoi(argv[2])};
    const int64_t micro_batches = atoi(argv[4]);
    static texts one, many;
    mega_language_model m, of_one;
    mega_transformer_list list, list_of_one;
    mega_transformer gpt = engine_run_gpt();
    gpt.num_layers = LAYERS;
    need(mega_world_create(NULL, &meeting.world));
    mega_engine *alone = open_engine(&gpt, NULL, 1, &of_one, &list_of_one);
    generate(alone, &of_one, &one);
    gpt.stage_chunks = atoi(argv[3]);
    mega_engine *e = open_engine(&gpt, &layout, micro_batches, &m, &list);
    need(mega_engine_compare_ranks(e));
    const mega_axis *pp = &mega_engine_layout(e)->pp;
    meeting.stage = pp->rank, meeting.stages = pp->size;
    meeting.runs = (int)micro_batches * (gpt.stage_chunks > 1 ? (int)gpt.stage_chunks : 1);
    if (mega_engine_layout(e)->tp.rank == 0) share_memory(argv[5]); /* one rank of each stage meets */
    generate(e, &m, &many);
    if (memcmp(one.token, many.token, sizeof one.token) != 0)
        need(MEGA_FAIL(MEGA_ERR_USAGE, "the texts are not those of one rank"));
    if (meeting.arrived != NULL && meeting.met < 6) need(MEGA_FAIL(MEGA_ERR_USAGE, "%d meetings", meeting.met));
    if (mega_world_rank(meeting.world) == 0) printf("%d meetings of %d stages\n", meeting.met, meeting.stages);
    meeting.arrived = NULL;
    mega_engine_destroy(e);
    mega_engine_destroy(alone);
    mega_transformer_list_destroy(&list);
    mega_transformer_list_destroy(&list_of_one);
    mega_world_destroy(meeting.world);
    return 0;
}
