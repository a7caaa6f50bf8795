/* The rounds of generate_samples_gpt: prompts are read for all copies of the model, each copy generates its batch of
 * texts, and the first rank prints them in the order of the prompts. */
#include "cli.h"
#include "generate.h"
#include "megalith/memory.h"
#include "megalith/signals.h"

#include <stdio.h>
#include <string.h>

/* What a rank sends about a text: its number of tokens, whether it ended by itself, its score (two numbers), its
 * tokens, its log-probabilities. */
enum { TOLD_COUNT, TOLD_FINISHED, TOLD_SCORE, TOLD_TOKENS = TOLD_SCORE + 2 };

/* The copies of the model: ranks of ep divide the experts of one. */
static const mega_axis *copies_of(const session *s)
{
    return &mega_engine_layout(s->loaded.model.engine)->edp;
}

/* Memory for the texts of a beam search. */
static mega_status open_beams(session *s)
{
    const int64_t most = s->loaded.model.shape.positions, width = s->beams.width;
    if (width == 1) return MEGA_OK;
    s->beam = mega_calloc((size_t)width, sizeof *s->beam);
    int32_t *tokens = s->beam == NULL ? NULL : mega_calloc((size_t)(width * most), sizeof *tokens);
    if (tokens == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "generation: no memory for %lld beams", (long long)width);
    for (int64_t i = 0; i < width; i++) s->beam[i].tokens = tokens + i * most;
    return MEGA_OK;
}

mega_status generate_open_rounds(session *s)
{
    const int64_t batch = s->cfg->generate.batch, most = s->loaded.model.shape.positions;
    const bool is_shared = copies_of(s)->size > 1;
    s->room = batch * copies_of(s)->size;
    s->told_width = TOLD_TOKENS + (s->cfg->generate.out_seq_length < most ? s->cfg->generate.out_seq_length : most);
    if (s->cfg->generate.logprobs) s->told_width += most; /* as many as a text has tokens */
    s->round = mega_calloc((size_t)s->room, sizeof *s->round);
    s->asked = mega_calloc((size_t)batch, sizeof *s->asked);
    s->told = is_shared ? mega_calloc((size_t)(s->room * s->told_width), sizeof *s->told) : NULL;
    if (s->round != NULL && s->asked != NULL && (s->told != NULL || !is_shared)) return open_beams(s);
    return MEGA_FAIL(MEGA_ERR_MEMORY, "generation: no memory for a round of %lld texts", (long long)s->room);
}

void generate_close_rounds(session *s)
{
    MEGA_FREE(s->round, s->asked, s->told);
    if (s->beam != NULL) mega_free(s->beam[0].tokens);
    mega_free(s->beam);
}

/* The source of an empty prompt: the token that ends a text, which is all that an encoder reads of it. */
static mega_status encode_nothing(const session *s, mega_ids *out)
{
    const int32_t end = mega_tokenizer_role(s->loaded.tokenizer, MEGA_ROLE_EOS, "[EOS] </s> <EOS>");
    MEGA_TRY(mega_encoder_encode_special(s->loaded.encoder, "", 0, out));
    if (out->count > 0) return MEGA_OK;
    if (end < 0)
        return MEGA_MISTAKE("an empty prompt: the encoder would read the end of a text, and %s has "
                            "neither [EOS] nor </s>; give a prompt",
                            mega_tokenizer_type(s->loaded.tokenizer));
    MEGA_TRY(mega_ids_reserve(out, 1));
    out->id[out->count++] = end;
    return MEGA_OK;
}

static mega_status encode_prompt(const session *s, const char *prompt, mega_ids *out)
{
    if (prompt[0] == '\0' && !s->cfg->generate.add_bos && generate_has_source(s)) return encode_nothing(s, out);
    if (prompt[0] == '\0' || s->cfg->generate.add_bos) { /* unconditional: the model starts a new document */
        const int32_t eod = mega_tokenizer_eod(s->loaded.tokenizer);
        if (eod < 0)
            return MEGA_MISTAKE("%s needs an end-of-document token, which %s has not",
                                prompt[0] == '\0' ? "an empty prompt" : "--add_BOS",
                                mega_tokenizer_type(s->loaded.tokenizer));
        MEGA_TRY(mega_ids_reserve(out, 1));
        out->id[out->count++] = eod;
    }
    if (prompt[0] == '\0') return MEGA_OK;
    return mega_encoder_encode_special(s->loaded.encoder, prompt, strlen(prompt), out);
}

bool generate_has_source(const session *s)
{
    return s->loaded.model.language.has_source;
}

int64_t generate_begun(const session *s, const sequence *q)
{
    return generate_has_source(s) ? 1 : q->ids.count;
}

int64_t generate_positions(const session *s)
{
    const mega_generate_options *o = &s->cfg->generate;
    const int64_t most = s->loaded.model.shape.positions;
    int64_t wanted = o->out_seq_length < most ? o->out_seq_length + 1 : most;
    if (!generate_has_source(s) || o->prompt.count == 0) return most;
    for (size_t i = 0; i < o->prompt.count; i++) {
        mega_ids ids = {0};
        if (encode_prompt(s, o->prompt.item[i], &ids) != MEGA_OK) mega_error_clear(); /* it is checked later */
        if (ids.count > wanted) wanted = ids.count;
        mega_ids_fini(&ids);
    }
    return wanted < most ? wanted : most;
}

/* Returns how many tokens may follow the prompt; below 1: none. */
static int64_t most_new(const session *s, const sequence *q)
{
    const int64_t room = s->loaded.model.shape.positions - q->ids.count;
    const int64_t most = !generate_has_source(s) ? room : room < 0 ? 0 : s->loaded.model.shape.positions - 1;
    return s->cfg->generate.out_seq_length < most ? s->cfg->generate.out_seq_length : most;
}

/* Handles a prompt that is too long. If it is one of many lines, skips it with a warning, as in Megatron, and gives it
 * an empty text, so that texts stay aligned with prompts. A prompt on the command line is an error. */
static mega_status refuse_prompt(const session *s, sequence *q)
{
    const char *file = s->cfg->generate.sample_input_file;
    const long long tokens = q->ids.count, positions = s->loaded.model.shape.positions;
    const long long longest = positions - !generate_has_source(s);
    const char *why = generate_has_source(s) ? "fit" : "leave room for a new one";
    if (!s->has_lines)
        return MEGA_MISTAKE(
            "prompt of %lld tokens: the model has %lld positions, so at most %lld prompt tokens %s; shorten it: "
            "\"%.60s…\"",
            tokens, positions, longest, why, q->prompt);
    mega_warn("%s%s, line %lld: prompt of %lld tokens: the model has %lld positions, so at most %lld prompt tokens %s; "
              "passed over, its answer is empty: \"%.60s…\"",
              file != NULL ? "--sample-input-file " : "", file != NULL ? file : "standard input", (long long)s->line,
              tokens, positions, longest, why, q->prompt);
    q->passed_over = true;
    return MEGA_OK;
}

static mega_status take_prompt(const session *s, const char *prompt, sequence *q)
{
    q->prompt = mega_strdup(prompt);
    if (q->prompt == NULL) return MEGA_NO_MEMORY("generation", "a prompt");
    MEGA_TRY(encode_prompt(s, prompt, &q->ids));
    const int64_t most = most_new(s, q);
    if (most < 1) MEGA_TRY(refuse_prompt(s, q));
    MEGA_TRY(mega_ids_reserve(&q->fresh, most < 1 ? 1 : most));
    if (!s->cfg->generate.logprobs) return MEGA_OK;
    q->logprobs = mega_calloc((size_t)(q->ids.count + (most < 1 ? 1 : most)), sizeof *q->logprobs);
    return q->logprobs != NULL ? MEGA_OK : MEGA_NO_MEMORY("generation", "a prompt");
}

static void free_sequence(sequence *q)
{
    mega_ids_fini(&q->ids);
    mega_ids_fini(&q->fresh);
    MEGA_FREE(q->prompt, q->logprobs);
    *q = (sequence){0};
}

static void check_prompt(session *s, const char *prompt)
{
    sequence q = {0};
    mega_options_add_mistake(s->cfg->train.engine.options, take_prompt(s, prompt, &q));
    free_sequence(&q);
}

mega_status generate_check_prompts(session *s)
{
    const mega_generate_options *o = &s->cfg->generate;
    for (size_t i = 0; i < o->prompt.count; i++) check_prompt(s, o->prompt.item[i]);
    if (o->prompt.count == 0 && o->num_samples > 0) check_prompt(s, "");
    return mega_cli_agree(s->world, mega_options_report(s->cfg->train.engine.options));
}

static mega_status read_round(session *s, generate_next *next, void *user, int64_t *count)
{
    const char *prompt = NULL;
    for (*count = 0; *count < s->room;) {
        MEGA_TRY(next(user, &prompt));
        if (prompt == NULL) break;
        MEGA_TRY(take_prompt(s, prompt, &s->round[(*count)++]));
    }
    return MEGA_OK;
}

static void clear_round(session *s, int64_t count)
{
    for (int64_t i = 0; i < count; i++) free_sequence(&s->round[i]);
}

/* The logits from which a text that has been found was chosen, token by token: each is the first after those before
 * it. */
static mega_status read_logits(session *s, const sequence *q, const mega_generation_rules *rules)
{
    int32_t drawn; /* the most probable token, which need not be that of the text */
    for (int64_t i = 0; i < q->fresh.count && rules->logits != NULL; i++) {
        mega_generation text = {.prompt = q->ids.id, .prompt_count = q->ids.count + i, .max_new = 1, .tokens = &drawn};
        MEGA_TRY(mega_generator_run(s->generator, &text, 1, rules));
        if (s->logits != NULL)
            generate_logits_token(s->logits, s->next_index + (uint64_t)(q - s->round), q->fresh.id[i]);
    }
    return MEGA_OK;
}

/* What the model says of a text that has been found, which is read once more. */
static mega_status read_again(session *s, sequence *q)
{
    generate_stream out = {.session = s};
    const mega_generation_rules rules = {.sampling = {.greedy = true}, .logits = s->rules.logits, .user = &out};
    if (q->logprobs == NULL && rules.logits == NULL) return MEGA_OK;
    MEGA_TRY(mega_ids_reserve(&q->ids, q->fresh.count));
    memcpy(q->ids.id + q->ids.count, q->fresh.id, (size_t)q->fresh.count * sizeof *q->fresh.id);
    mega_generation text = {
        .prompt = q->ids.id, .prompt_count = q->ids.count + q->fresh.count, .logprobs = q->logprobs};
    if (q->logprobs != NULL) MEGA_TRY(mega_generator_run(s->generator, &text, 1, &rules));
    return read_logits(s, q, &rules);
}

/* Searches the text of each prompt, one after the other. */
static mega_status search_part(session *s, sequence *q, int count)
{
    for (int i = 0; i < count; i++) {
        int found = 0;
        if (q[i].passed_over) continue;
        MEGA_TRY(mega_generator_beams(s->generator, q[i].ids.id, q[i].ids.count, most_new(s, &q[i]), &s->beams, s->beam,
                                      &found));
        memcpy(q[i].fresh.id, s->beam[0].tokens, (size_t)s->beam[0].count * sizeof *q[i].fresh.id);
        q[i].fresh.count = s->beam[0].count;
        q[i].finished = s->beam[0].finished;
        q[i].score = s->beam[0].score;
        MEGA_TRY(read_again(s, &q[i]));
    }
    return MEGA_OK;
}

/* Generates this rank's texts. If streamed, the first text is printed while it is generated. */
static mega_status make_part(session *s, sequence *q, int count, bool streamed)
{
    generate_stream out = {.tokenizer = s->loaded.tokenizer, .session = s, .on = streamed};
    const uint64_t first = s->next_index + (uint64_t)(q - s->round);
    int asked = 0;
    for (int b = 0; b < count; b++) {
        if (q[b].passed_over) continue;
        s->asked[asked++] = (mega_generation){.prompt = q[b].ids.id,
                                              .prompt_count = q[b].ids.count,
                                              .max_new = most_new(s, &q[b]),
                                              .index = first + (uint64_t)b,
                                              .tokens = q[b].fresh.id,
                                              .logprobs = q[b].logprobs};
    }
    if (asked == 0) return MEGA_OK;
    if (streamed && !generate_has_source(s)) {
        printf("%s", q[0].prompt);
        fflush(stdout);
    }
    s->rules.user = &out;
    const mega_status st = mega_generator_run(s->generator, s->asked, asked, &s->rules);
    if (out.decoder != NULL && out.status == MEGA_OK) out.status = mega_decoder_finish(out.decoder, &out.pending);
    mega_decoder_destroy(out.decoder);
    if (streamed && out.pending.size > 0) fwrite(out.pending.data, 1, out.pending.size, stdout);
    if (streamed && st != MEGA_OK) printf("\n");
    mega_buffer_fini(&out.pending);
    MEGA_TRY(st);
    for (int b = 0, a = 0; b < count; b++) {
        if (q[b].passed_over) continue;
        q[b].fresh.count = s->asked[a].count;
        q[b].finished = s->asked[a++].finished;
    }
    return out.status;
}

static void report_round(session *s, int64_t i)
{
    const sequence *q = &s->round[i];
    int32_t *to = s->told + i * s->told_width;
    to[TOLD_COUNT] = (int32_t)q->fresh.count;
    to[TOLD_FINISHED] = q->finished;
    memcpy(to + TOLD_SCORE, &q->score, sizeof q->score);
    memcpy(to + TOLD_TOKENS, q->fresh.id, (size_t)q->fresh.count * sizeof *to);
    to += TOLD_TOKENS + q->fresh.count;
    if (q->logprobs != NULL) memcpy(to, q->logprobs, (size_t)(generate_begun(s, q) + q->fresh.count - 1) * sizeof *to);
}

static void rounds_hear(session *s, int64_t i)
{
    sequence *q = &s->round[i];
    const int32_t *from = s->told + i * s->told_width;
    q->fresh.count = from[TOLD_COUNT];
    q->finished = from[TOLD_FINISHED] != 0;
    memcpy(&q->score, from + TOLD_SCORE, sizeof q->score);
    memcpy(q->fresh.id, from + TOLD_TOKENS, (size_t)q->fresh.count * sizeof *from);
    from += TOLD_TOKENS + q->fresh.count;
    if (q->logprobs != NULL)
        memcpy(q->logprobs, from, (size_t)(generate_begun(s, q) + q->fresh.count - 1) * sizeof *from);
}

/* Sends the texts of each rank to all ranks. */
static mega_status exchange(session *s, int64_t count, int64_t first, int64_t part)
{
    const mega_axis *copies = copies_of(s);
    const int64_t each = s->room / copies->size * s->told_width;
    if (copies->size == 1) return MEGA_OK;
    for (int64_t i = first; i < first + part; i++) report_round(s, i);
    MEGA_TRY(mega_comm_all_gather(copies->comm, "texts", s->told, s->told + copies->rank * each, each, MEGA_I32));
    for (int64_t i = 0; i < count; i++)
        if (i < first || i >= first + part) rounds_hear(s, i);
    return MEGA_OK;
}

static mega_status run_round(session *s, int64_t count)
{
    const int64_t batch = s->cfg->generate.batch, first = copies_of(s)->rank * batch, left = count - first;
    const int64_t part = left <= 0 ? 0 : left < batch ? left : batch;
    /* The rank that generates the first text streams it. */
    const bool searches = s->beams.width > 1;
    const bool is_streamed = count > 0 && (batch == 1 || count == 1) && !s->round[0].passed_over && !searches;
    mega_status st = MEGA_OK;
    if (part > 0 && searches) st = search_part(s, s->round + first, (int)part);
    if (part > 0 && !searches) st = make_part(s, s->round + first, (int)part, is_streamed && first == 0);
    MEGA_TRY(mega_cli_agree(s->world, st)); /* before ranks wait for the texts of a rank that failed */
    MEGA_TRY(exchange(s, count, first, part));
    for (int64_t i = 0; i < count && st == MEGA_OK; i++) {
        s->new_tokens += s->round[i].fresh.count;
        st = generate_report(s, &s->round[i], is_streamed && first == 0 && i == 0);
    }
    s->next_index += (uint64_t)count;
    return mega_cli_agree(s->world, st);
}

mega_status generate_all(session *s, generate_next *next, void *user)
{
    int64_t count = 0;
    do {
        mega_status st = read_round(s, next, user, &count);
        if (st == MEGA_OK && *mega_signals_stop() != 0)
            st = MEGA_FAIL(MEGA_ERR_INTERRUPTED, "generation was interrupted by a signal");
        st = mega_cli_agree(s->world, st); /* so that no rank waits in a program for one that failed */
        if (st == MEGA_OK && count > 0) st = run_round(s, count);
        clear_round(s, count);
        MEGA_TRY(st);
    } while (count == s->room);
    return MEGA_OK;
}
