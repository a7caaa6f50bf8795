/* Compares what must be equal on all ranks of a training before its first step: differences in options, build,
 * tokenizer or data are errors; of different instruction sets, all ranks use the smallest. Everything is compared as
 * lines of text, so that a difference is reported as a user would write it. */
#include "megalith/compare.h"
#include "megalith/kernels.h"
#include "megalith/train.h"
#include "train_impl.h"
#include <stdio.h>

enum { MOST_LINES = 4 };

typedef struct lines {
    mega_list list; /* the lines as a list: its items are `item`, which point to `line` */
    const char *item[MOST_LINES];
    char line[MOST_LINES][MEGA_COMPARED_TEXT];
} lines;

static char *compare_ranks_add_line(lines *l)
{
    l->list.item = l->item;
    l->item[l->list.count] = l->line[l->list.count];
    return l->line[l->list.count++];
}

/* Compares builds first, since another build may have other options. */
mega_status mega_train_compare_ranks(mega_train_options *cfg, mega_comm *ranks)
{
    mega_list options = {0};
    lines builds = {0};
    char id[MEGA_BUILD_ID_TEXT];
    mega_build_id(id);
    snprintf(compare_ranks_add_line(&builds), MEGA_COMPARED_TEXT, "build %s", id);
    MEGA_TRY(mega_comm_compare_lines(ranks, "programs", "start one build of the program on all hosts", &builds.list));
    MEGA_TRY(mega_comm_agree(
        ranks, mega_options_alike(cfg->engine.options,
                                  train_task_of(mega_options_command(cfg->engine.options))->command, &options)));
    return mega_comm_compare_lines(ranks, "options", NULL, &options);
}

mega_status train_compare_ranks(const trainer *t)
{
    if (mega_world_size(t->world) == 1) return MEGA_OK;
    return train_agree(t, mega_train_compare_ranks(t->cfg, mega_world_comm(t->world)));
}

static mega_status compare_ranks_compare(const trainer *t, const char *what, const char *remedy, const lines *l)
{
    return train_agree(t, mega_comm_compare_lines(mega_world_comm(t->world), what, remedy, &l->list));
}

enum { ISAS = MEGA_ISA_AMX + 1 };

/* Logs "amx on 3 ranks (first: 0), avx2 on 1 rank (3)". */
static void log_isas(const trainer *t, const int32_t ranks[ISAS], const int32_t first[ISAS], mega_isa least)
{
    mega_buffer text = {0};
    for (int i = ISAS - 1; i >= 0; i--)
        if (ranks[i] > 0)
            mega_buffer_printf(&text, "%s%s on %d rank%s (%s%d)", text.size > 0 ? ", " : "", mega_isa_name((mega_isa)i),
                               ranks[i], ranks[i] == 1 ? "" : "s", ranks[i] == 1 ? "" : "first: ", first[i]);
    train_line(t, "> processors differ: %s; all ranks compute with %s, so that copies of a weight stay equal",
               text.data != NULL ? text.data : "", mega_isa_name(least));
    mega_buffer_fini(&text);
}

/* Selects the smallest instruction set of all ranks. Vectors of another width round sums differently, so copies of a
 * weight on two such processors would drift apart. */
static mega_status agree_on_isa(const trainer *t)
{
    mega_comm *all = mega_world_comm(t->world);
    const mega_isa mine = mega_cpu_isa();
    int32_t ranks[ISAS] = {0}, first[ISAS];
    for (int i = 0; i < ISAS; i++) first[i] = -INT32_MAX; /* negated ranks, so that the maximum is the lowest rank */
    ranks[mine] = 1;
    first[mine] = -mega_world_rank(t->world);
    MEGA_TRY(mega_comm_all_reduce(all, "instruction sets", ranks, ISAS, MEGA_I32, MEGA_REDUCE_SUM));
    MEGA_TRY(mega_comm_all_reduce(all, "instruction sets", first, ISAS, MEGA_I32, MEGA_REDUCE_MAX));
    int least = MEGA_ISA_PORTABLE;
    while (ranks[least] == 0) least++;
    mega_cpu_isa_lower((mega_isa)least);
    for (int i = 0; i < ISAS; i++) first[i] = -first[i];
    if (ranks[least] < mega_world_size(t->world)) log_isas(t, ranks, first, (mega_isa)least);
    return MEGA_OK;
}

mega_status train_compare_processors(const trainer *t)
{
    return mega_world_size(t->world) == 1 ? MEGA_OK : train_agree(t, agree_on_isa(t));
}

mega_status train_compare_tokenizers(const trainer *t)
{
    lines l = {0};
    if (mega_world_size(t->world) == 1) return MEGA_OK;
    if (t->text.tokenizer == NULL) snprintf(compare_ranks_add_line(&l), MEGA_COMPARED_TEXT, "no tokenizer");
    else
        snprintf(compare_ranks_add_line(&l), MEGA_COMPARED_TEXT, "%s of %lld ids, fingerprint %016llx",
                 mega_tokenizer_type(t->text.tokenizer), (long long)t->text.vocab,
                 (unsigned long long)mega_tokenizer_fingerprint(t->text.tokenizer));
    return compare_ranks_compare(t, "tokenizers", "give all hosts the same tokenizer files", &l);
}

mega_status train_compare_data(const trainer *t)
{
    lines l = {0};
    if (mega_world_size(t->world) == 1) return MEGA_OK;
    for (int i = 0; i < MEGA_SPLIT_COUNT; i++) {
        const mega_task_data *d = &t->data[i];
        if (d->self == NULL) {
            snprintf(compare_ranks_add_line(&l), MEGA_COMPARED_TEXT, "no %s data", train_split_name(i));
            continue;
        }
        const char *others, *prefix = train_data_prefix(t->cfg, i, &others);
        snprintf(compare_ranks_add_line(&l), MEGA_COMPARED_TEXT,
                 "%s data of %lld samples, hash of .idx %016llx, of .bin %016llx: %s%s", train_split_name(i),
                 (long long)d->samples, (unsigned long long)t->task->data_hash(d), (unsigned long long)t->content[i],
                 prefix, others);
    }
    return compare_ranks_compare(t, "data", "copy the same .bin and .idx files to all hosts", &l);
}
