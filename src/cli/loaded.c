/* Opens --load for commands that use a trained model, and checks the given options against it. */
#include "loaded.h"
#include "cli.h"
#include "megalith/file.h"
#include "megalith/memory.h"
#include "megalith/signals.h"

#include <string.h>

/* Adds one line for each option that contradicts the folder. */
static void check_shape(mega_buffer *wrong, mega_command_options *cfg, const mega_model_shape *m)
{
    const struct {
        const char *dest;
        int64_t given, found;
    } rows[] = {
        {"num_layers", cfg->train.model.num_layers, m->num_layers},
        {"hidden_size", cfg->train.model.hidden_size, m->hidden},
        {"ffn_hidden_size", cfg->train.model.ffn_hidden_size, m->ffn_hidden},
        {"num_attention_heads", cfg->train.model.num_attention_heads, m->heads},
        {"kv_channels", cfg->train.model.kv_channels, m->net.head_dim > 0 ? m->net.head_dim : m->hidden / m->heads},
        {"max_position_embeddings", cfg->train.model.max_position_embeddings, m->positions},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!mega_options_was_set(cfg->train.engine.options, rows[i].dest) || rows[i].given == rows[i].found) continue;
        mega_buffer_printf(wrong, "\n  %s: the model has %lld; leave the option out or give that value",
                           mega_options_origin(cfg->train.engine.options, rows[i].dest), (long long)rows[i].found);
    }
    if (mega_options_was_set(cfg->train.engine.options, "layernorm_epsilon") &&
        cfg->train.model.layernorm_epsilon != m->norm_epsilon)
        mega_buffer_printf(wrong, "\n  %s: the model has %g; leave the option out or give that value",
                           mega_options_origin(cfg->train.engine.options, "layernorm_epsilon"), m->norm_epsilon);
    if (mega_options_was_set(cfg->train.engine.options, "seq_length") && cfg->train.seq_length > m->positions)
        mega_buffer_printf(wrong, "\n  %s: the model has %lld positions; give at most that",
                           mega_options_origin(cfg->train.engine.options, "seq_length"), (long long)m->positions);
}

/* Whether --vocab-file is the vocab.txt of the folder, or a copy of it: then it adds nothing. */
static mega_status is_vocabulary_of_folder(const mega_loaded *l, const mega_text_options *o, bool *out)
{
    char *path = NULL, *theirs = NULL, *given = NULL;
    size_t size = 0, bytes = 0;
    mega_status st = MEGA_OK;
    *out = false;
    if (l->model.tokenizer == NULL || o->vocab_file == NULL || o->tokenizer_model != NULL) return MEGA_OK;
    path = mega_path_join(l->model.folder, "vocab.txt");
    if (path == NULL) return MEGA_NO_MEMORY("--vocab-file", "the name of the folder's");
    if (mega_file_exists(path)) {
        st = mega_file_read(path, &theirs, &size);
        if (st == MEGA_OK) st = mega_file_read(o->vocab_file, &given, &bytes);
        *out = st == MEGA_OK && size == bytes && memcmp(theirs, given, size) == 0;
    }
    MEGA_FREE(given, theirs, path);
    return st;
}

/* How the named files are read: without --tokenizer-type as the folder's are, whose copies they should be. Where the
 * folder's tokenizer has no such file, they are read as what their name says, and are then refused as another's. */
static mega_tokenizer_options read_as(const mega_loaded *l, const mega_command_options *cfg)
{
    const mega_options *given = cfg->train.engine.options;
    mega_tokenizer_options o = mega_text_tokenizer(&cfg->train.text);
    if (l->tokenizer == NULL || mega_options_was_set(given, "tokenizer_type")) return o;
    const char *type = mega_tokenizer_type(l->tokenizer);
    const bool has_model = mega_tokenizer_needs_model(type);
    if (o.model != NULL) o.type = has_model ? type : "HuggingFaceTokenizer";
    else if (!has_model && mega_tokenizer_needs_file(type))
        o.type = type;
    else if (mega_path_ends_with(o.vocab_file, ".txt"))
        o.type = "BertWordPieceLowerCase";
    const bool is_made = strncmp(type, "BertWordPiece", 13) == 0 || strcmp(type, "SentencePieceTokenizer") == 0;
    if (is_made && !mega_options_is_given(given, "vocab_extra_ids"))
        o.extra_ids = mega_tokenizer_extra_ids(l->tokenizer);
    return o;
}

/* Refuses options about the tokenizer of the folder that it does not obey, where no files of another are named. */
static void check_own_tokenizer(const mega_loaded *l, const mega_command_options *cfg, mega_buffer *wrong)
{
    mega_tokenizer_check_vocab_size(l->tokenizer, cfg->train.text.vocab_size);
    mega_train_compare_tokenizer(&cfg->train, l->tokenizer, wrong);
}

/* Refuses files of another tokenizer than the folder's. */
static mega_status check_named_files(const mega_loaded *l, const mega_command_options *cfg, mega_buffer *wrong)
{
    mega_tokenizer *given = NULL;
    const mega_tokenizer_options o = read_as(l, cfg);
    mega_options *all = cfg->train.engine.options;
    const char *file = mega_options_origin(all, o.vocab_file != NULL ? "vocab_file" : "tokenizer_model");
    if (o.type != NULL && !mega_tokenizer_needs_file(o.type)) {
        mega_buffer_printf(wrong, "\n  %s: a %s is read from no file; leave the option out", file, o.type);
        return MEGA_OK;
    }
    MEGA_TRY(mega_tokenizer_create(&o, &given));
    if (mega_tokenizer_fingerprint(given) != mega_tokenizer_fingerprint(l->tokenizer))
        mega_buffer_printf(wrong, "\n  %s: another tokenizer than the one in the folder; leave its files out", file);
    mega_tokenizer_destroy(given);
    return MEGA_OK;
}

/* The tokenizer that options name, for a folder that has none. */
static mega_status open_named(mega_loaded *l, const mega_command_options *cfg, mega_buffer *wrong)
{
    const mega_tokenizer_options o = mega_text_tokenizer(&cfg->train.text);
    MEGA_TRY(mega_tokenizer_create(&o, &l->tokenizer));
    l->owns_tokenizer = true;
    if (mega_tokenizer_size(l->tokenizer) > l->model.shape.vocab)
        mega_buffer_printf(wrong,
                           "\n  tokenizer: %lld tokens, the model has %lld; give the tokenizer it was trained with",
                           (long long)mega_tokenizer_size(l->tokenizer), (long long)l->model.shape.vocab);
    return MEGA_OK;
}

static mega_status open_tokenizer(mega_loaded *l, mega_command_options *cfg, mega_buffer *wrong)
{
    bool is_own;
    MEGA_TRY(is_vocabulary_of_folder(l, &cfg->train.text, &is_own));
    const bool names_files = mega_text_names_files(&cfg->train.text) && !is_own;
    const bool names_type = mega_options_was_set(cfg->train.engine.options, "tokenizer_type");
    l->tokenizer = l->model.tokenizer;
    if (l->tokenizer == NULL) return names_files || names_type ? open_named(l, cfg, wrong) : MEGA_OK;
    if (!names_files) check_own_tokenizer(l, cfg, wrong);
    return names_files ? check_named_files(l, cfg, wrong) : MEGA_OK;
}

mega_status mega_loaded_check(mega_loaded *l, mega_command_options *cfg)
{
    mega_buffer wrong = {0};
    check_shape(&wrong, cfg, &l->model.shape);
    mega_status st = open_tokenizer(l, cfg, &wrong);
    if (st == MEGA_OK && wrong.size > 0)
        st = MEGA_MISTAKE("options that contradict the model in %s:%s", l->model.folder, wrong.data);
    mega_buffer_fini(&wrong);
    return st;
}

static mega_status open_all(mega_loaded *l, mega_command_options *cfg, mega_world *world)
{
    const char *command = mega_options_command(cfg->train.engine.options);
    if (cfg->train.load == NULL)
        return MEGA_MISTAKE("--load: not given; expected a --save folder of pretrain_gpt or a Hugging Face folder");
    MEGA_TRY(mega_team_create((int)cfg->train.engine.backend.num_threads, &l->team));
    mega_team_stop_on(l->team, mega_signals_stop());
    const mega_pretrained_options o = {.compute = cfg->train.engine.backend.params_dtype,
                                       .backend = cfg->train.engine.backend.backend,
                                       .gpu = cfg->train.engine.backend.gpu,
                                       .matmul_library = cfg->train.engine.backend.matmul_library,
                                       .vocab_multiple = cfg->train.make_vocab_size_divisible_by,
                                       .team = l->team,
                                       .world = world,
                                       .layout = {.tp = (int)cfg->train.engine.comm.tensor_model_parallel_size,
                                                  .pp = (int)cfg->train.engine.comm.pipeline_model_parallel_size,
                                                  .ep = (int)cfg->train.engine.comm.expert_model_parallel_size},
                                       .first_stage_layers = cfg->train.model.decoder_first_pipeline_num_layers,
                                       .last_stage_layers = cfg->train.model.decoder_last_pipeline_num_layers,
                                       .stage_programs = cfg->train.model.num_virtual_stages_per_pipeline_rank,
                                       .program_layers = cfg->train.model.num_layers_per_virtual_pipeline_stage,
                                       .expert_buffer = cfg->train.model.moe_buffer_factor,
                                       .encodes = strcmp(command, "embed") == 0 || strcmp(command, "fill_mask") == 0,
                                       .memory_limit = (size_t)cfg->train.memory_limit};
    MEGA_TRY(mega_pretrained_open(cfg->train.load, &o, &l->model));
    mega_status st = mega_loaded_check(l, cfg);
    if (st == MEGA_OK && l->tokenizer != NULL) st = mega_encoder_create(l->tokenizer, &l->encoder);
    return st;
}

mega_status mega_loaded_open(mega_command_options *cfg, mega_world *world, mega_loaded *out)
{
    mega_loaded l = {0};
    const mega_status st = mega_cli_agree(world, open_all(&l, cfg, world));
    if (st != MEGA_OK) mega_loaded_close(&l);
    else
        *out = l;
    return st;
}

mega_status mega_loaded_need_decoder(const mega_loaded *l, const char *what)
{
    if (!l->model.language.has_source) return MEGA_OK;
    return MEGA_FAIL(
        MEGA_ERR_UNSUPPORTED,
        "model %s: an encoder with a decoder, of which %s takes none; give the folder of a decoder, or write "
        "texts with generate_samples_gpt",
        l->model.folder, what);
}

mega_status mega_loaded_need_tokenizer(const mega_loaded *l)
{
    if (l->tokenizer != NULL) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_NOT_FOUND,
                     "model %s: it has no tokenizer files; name them: --tokenizer-type GPT2BPETokenizer --vocab-file "
                     "vocab.json --merge-file merges.txt",
                     l->model.folder);
}

void mega_loaded_close(mega_loaded *l)
{
    mega_encoder_destroy(l->encoder);
    if (l->owns_tokenizer) mega_tokenizer_destroy(l->tokenizer);
    mega_pretrained_fini(&l->model);
    mega_team_destroy(l->team);
    *l = (mega_loaded){0};
}
