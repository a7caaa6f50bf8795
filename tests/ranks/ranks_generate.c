/* Tests engines that only run forward, on two ranks: generation and evaluation give the results of one rank; a wrong
 * run on rank 1 only, or a signal to one rank, is reported on both. The argument is the layout; with ep and ep_biases
 * the model has experts, whose rows an evaluation sends in several rounds. */
#include "engine_text.h"
#include "kinds_networks.h"
#include "megalith/threads.h"
#include "rank.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct scene {
    mega_world *world;
    mega_team *team;
    mega_transformer gpt;
    const char *how;
    mega_engine *one, *one_whole; /* engines that use this rank only */
    mega_engine *all, *all_whole;
} scene;

static volatile sig_atomic_t stop;

static void check(bool holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "not so: %s (%s)\n", what, mega_error_message());
    exit(1);
}

static bool is(const scene *s, const char *how)
{
    return strcmp(s->how, how) == 0;
}

static bool divides_experts(const scene *s)
{
    return is(s, "ep") || is(s, "ep_biases");
}

static mega_engine *open_engine(const scene *s, mega_mode mode, bool is_alone)
{
    mega_engine_options o = text_options(MEGA_F64, mode);
    mega_engine *e = NULL;
    mega_transformer gpt = s->gpt;
    if (is_alone) gpt.stage_chunks = 0;
    if (!is_alone) {
        o.world = s->world;
        o.team = s->team;
        o.layout.tp = is(s, "tp") ? 2 : 1;
        o.layout.ep = divides_experts(s) ? 2 : 1;
        o.layout.pp = is(s, "pp") || is(s, "interleaved") ? 2 : 1;
        if (is(s, "dp") || divides_experts(s)) o.batch.global_batch = o.batch.micro_step = 2 * TEXT_SAMPLES;
    }
    need(text_engine(&e, &gpt, mode, &o));
    return e;
}

/* Data-parallel ranks generate different texts, and different numbers of them; those of ep generate the same, and
 * evaluate different ones. */
static void texts_are_those_of_one_rank(const scene *s)
{
    const int mine = is(s, "dp") ? mega_world_rank(s->world) : 0,
              of_ep = divides_experts(s) ? mega_world_rank(s->world) : 0;
    for (int32_t i = 0; i <= 1 + mine; i++) {
        engine_text a, b;
        double expected[TEXT_TOKENS], found[TEXT_TOKENS];
        text_begin(&a, 5 + i + 10 * mine);
        text_begin(&b, 5 + i + 10 * mine);
        need(text_generate(&a, s->one));
        need(text_generate(&b, s->all));
        check(memcmp(a.token, b.token, sizeof a.token) == 0, "the text is that of one rank");
        if (of_ep > 0) text_begin(&a, 15 + i);
        need(text_losses(&a, s->one_whole, -1, expected));
        need(text_losses(&a, s->all_whole, -1, found));
        for (int k = 0; k < TEXT_TOKENS; k++)
            check(fabs(found[k] - expected[k]) < 1e-12 * (1 + fabs(expected[k])), "the loss is that of one rank");
    }
}

static void stages_know_their_place(const scene *s)
{
    mega_run_value logits;
    const bool is_cut = is(s, "pp") || is(s, "interleaved"), is_first = mega_world_rank(s->world) == 0;
    check(mega_engine_is_first_stage(s->all) == (!is_cut || is_first), "the first stage");
    check(mega_engine_is_last_stage(s->all) == (!is_cut || !is_first), "the last stage");
    check(mega_engine_run_output(s->all, MEGA_RUN_DECODE, "logits", &logits) == mega_engine_is_last_stage(s->all),
          "the last stage has the logits");
}

/* Makes wrong runs on rank 1 only; if both ranks share the model, both report them. */
static void wrong_runs(const scene *s)
{
    const bool is_wrong = mega_world_rank(s->world) == 1, is_told = is_wrong || !is(s, "dp");
    const int32_t filled[TEXT_SAMPLES] = {is_wrong ? -1 : 0, 0}, none[TEXT_SAMPLES] = {0};
    const int32_t id = TEXT_VOCAB + 1000;
    engine_text t;
    text_begin(&t, 5);
    text_fill(&t, s->all);
    need(mega_engine_run(s->all, MEGA_RUN_PREFILL, filled));
    mega_status st = mega_engine_wait(s->all);
    check(st == (is_told ? MEGA_ERR_USAGE : MEGA_OK), "a wrong length is told");
    check(!is_told || strstr(mega_error_message(), "has -1 positions") != NULL, "as what it is");
    check(is_wrong || !is_told || strstr(mega_error_message(), "rank 1: ") != NULL, "and of which rank");
    for (int i = 0; i < 3; i++) { /* the second of three runs that overlap in the stages is wrong */
        text_fill(&t, s->all);
        mega_batch *b = i == 1 && is_wrong ? mega_engine_run_batch(s->all, MEGA_RUN_PREFILL) : NULL;
        const int32_t ids[TEXT_PREFILL] = {id, id, id, id};
        if (b != NULL) need(mega_sample_set_i32(mega_batch_sample(b, 0), "tokens", ids, TEXT_PREFILL));
        need(mega_engine_run(s->all, MEGA_RUN_PREFILL, none));
    }
    st = mega_engine_wait(s->all);
    check(st == (is_told ? MEGA_ERR_USAGE : MEGA_OK), "a wrong run among right ones is told");
    need(mega_engine_wait(s->all));
    texts_are_those_of_one_rank(s);
}

/* Runs last, because a rank that was asked to stop cannot continue. */
static void signals(const scene *s)
{
    engine_text t;
    const bool is_told = mega_world_rank(s->world) == 1 || !is(s, "dp");
    text_begin(&t, 5);
    need(mega_comm_barrier(mega_world_comm(s->world), "signals")); /* all ranks of dp have finished their texts */
    if (mega_world_rank(s->world) == 1) stop = SIGTERM;
    const mega_status st = text_generate(&t, s->all);
    check(st == MEGA_ERR_INTERRUPTED || (!is_told && st == MEGA_OK), "a signal is told on all ranks of a model");
}

int main(int argc, char **argv)
{
    scene s = {.gpt = engine_run_gpt(), .how = argc > 1 ? argv[1] : "dp"};
    need(mega_world_create(NULL, &s.world));
    need(mega_team_create(1, &s.team));
    mega_team_stop_on(s.team, &stop);
    s.gpt.num_layers = 4;
    if (divides_experts(&s)) {
        s.gpt.net = is(&s, "ep_biases") ? gpt_oss : experts;
        s.gpt.expert_buffer = 0.3;
    }
    if (is(&s, "interleaved")) s.gpt.stage_chunks = 2;
    s.one = open_engine(&s, MEGA_GENERATE, true);
    s.one_whole = open_engine(&s, MEGA_EVAL, true);
    s.all = open_engine(&s, MEGA_GENERATE, false);
    s.all_whole = open_engine(&s, MEGA_EVAL, false);
    need(mega_engine_compare_ranks(s.all));
    need(mega_engine_compare_ranks(s.all_whole));
    texts_are_those_of_one_rank(&s);
    stages_know_their_place(&s);
    wrong_runs(&s);
    signals(&s);
    mega_engine_destroy(s.all_whole);
    mega_engine_destroy(s.all);
    mega_engine_destroy(s.one_whole);
    mega_engine_destroy(s.one);
    mega_team_destroy(s.team);
    if (mega_world_rank(s.world) == 0) printf("texts, losses, wrong runs and signals agree\n");
    mega_world_destroy(s.world);
    return 0;
}
