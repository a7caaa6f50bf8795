/* Generates text with a model folder: draws a text while it is printed, then searches for the best one with beams.
 *
 *     ./generate FOLDER "a prompt" [new tokens]
 *
 * Also on several ranks that share the model: megalith launch --nproc_per_node 2 ./generate FOLDER "a prompt" (each
 * stage of the pipeline then holds a part of the layers). */
#include <megalith/megalith.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BEAMS = 4, MOST = 4096 };

static void need(mega_status st)
{
    if (st == MEGA_OK) return;
    fprintf(stderr, "generate: %s\n", mega_error_message());
    exit(1);
}

typedef struct printer {
    mega_generator *generator;
    mega_buffer text;
    bool prints; /* the first rank does */
} printer;

/* Called for each new token. */
static bool print_token(void *user, int row, int32_t token)
{
    printer *p = (printer *)user;
    (void)row;
    p->text.size = 0;
    if (mega_generator_decode(p->generator, &token, 1, &p->text) != MEGA_OK) return true;
    if (p->prints) fwrite(p->text.data, 1, p->text.size, stdout);
    fflush(stdout);
    return true;
}

/* Draws one text: the rules of Megatron, with the names of its options. */
static void draw(printer *p, const int32_t *prompt, int64_t count, int64_t fresh)
{
    static int32_t tokens[MOST];
    const int32_t end = mega_generator_end(p->generator);
    const mega_id_sequence ends = {.id = &end, .count = 1};
    mega_generation_rules rules = {.sampling = {.temperature = 0.9, .top_k = 20, .seed = 7}};
    mega_generation text = {.prompt = prompt, .prompt_count = count, .max_new = fresh, .tokens = tokens};
    rules.end = &ends;
    rules.num_ends = end >= 0;
    rules.token = print_token;
    rules.user = p;
    need(mega_generator_run(p->generator, &text, 1, &rules));
    if (p->prints) printf("\n(%d new tokens)\n", (int)text.count);
}

/* Searches for the best text with BEAMS open beams. */
static void search(printer *p, const int32_t *prompt, int64_t count, int64_t fresh)
{
    static int32_t tokens[BEAMS][MOST];
    mega_beam_options options = {.width = BEAMS, .length_penalty = 1};
    mega_beam_text texts[BEAMS] = {{.tokens = tokens[0]}};
    int found = 0;
    for (int i = 0; i < BEAMS; i++) texts[i].tokens = tokens[i];
    options.stop = mega_generator_end(p->generator);
    need(mega_generator_beams(p->generator, prompt, count, fresh, &options, texts, &found));
    for (int i = 0; i < found && p->prints; i++) {
        p->text.size = 0;
        need(mega_generator_decode(p->generator, texts[i].tokens, texts[i].count, &p->text));
        printf("score %.3f: %.*s\n", texts[i].score, (int)p->text.size, p->text.data);
    }
}

int main(int argc, char **argv)
{
    static int32_t prompt[MOST];
    int64_t count = 0;
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        printf("usage: generate [FOLDER [PROMPT [TOKENS]]]\n");
        return 0;
    }
    mega_world *world = NULL;
    mega_generator_setup setup = {.folder = argc > 1 ? argv[1] : ".", .texts = BEAMS, .has_beams = true};
    printer p = {.prints = false};
    need(mega_world_create(NULL, &world));
    setup.world = world;
    setup.pp = mega_world_size(world);
    need(mega_generator_open(&setup, &p.generator));
    p.prints = mega_world_rank(world) == 0;
    need(mega_generator_encode(p.generator, argc > 2 ? argv[2] : "The", prompt, MOST, &count));
    const int64_t room = mega_generator_positions(p.generator) - count, wanted = argc > 3 ? atoi(argv[3]) : 20;
    const int64_t fresh = wanted < room ? wanted : room;
    draw(&p, prompt, count, fresh);
    search(&p, prompt, count, fresh);
    mega_generator_destroy(p.generator);
    mega_buffer_fini(&p.text);
    mega_world_destroy(world);
    return 0;
}
