/* The classes of `transformers`: which one reads a folder, and by what steps it replaces those of tokenizer.json. */
#include "folder_rules.h"
#include "megalith/json_cursor.h"
#include <string.h>

typedef struct class_row {
    const char *names;       /* tokenizer_class, without "Fast" */
    const char *model_types; /* of config.json, where nothing else names a class */
    const char *model;       /* the type of its vocabulary; NULL: any */
    const char *role[MEGA_ROLES];
} class_row;

#define END_OF_TEXT "<|endoftext|>"
#define ROLES(bos, eos, unk, sep, pad, cls, mask)                                                   \
    {                                                                                               \
        [MEGA_ROLE_BOS] = bos, [MEGA_ROLE_EOS] = eos, [MEGA_ROLE_UNK] = unk, [MEGA_ROLE_SEP] = sep, \
        [MEGA_ROLE_PAD] = pad, [MEGA_ROLE_CLS] = cls, [MEGA_ROLE_MASK] = mask                       \
    }

static const class_row rows[MEGA_CLASSES] = {
    [MEGA_CLASS_FILE] =
        {"TokenizersBackend PreTrainedTokenizer PythonBackend BloomTokenizer",
         "aria beam bigbird_pegasus canary flex_olmo glm glm4 glm4_moe glm4_moe_lite glm4v glm4v_moe "
         "gpt_bigcode granite granitemoe granitemoehybrid granitemoeshared kimi_k25 kimi_linear kosmos-2 "
         "mimo_v2_flash ministral ministral3 mistral mistral3 mistral_large4 mixtral nystromformer olmo2 "
         "olmo3 olmo_hybrid pegasus_x persimmon pix2struct pixtral stablelm umt5 voxtral xlm-roberta-xl "
         "arctic ernie4_5 ernie4_5_moe fuyu h2ovl_chat hyperclovax internlm2 internlm3 iquestcoder jamba "
         "llava llava_next minicpm3 minicpmv minimax_m2 modernbert modernbert-decoder molmo molmo2 "
         "nemotron opencua openvla phi3 phi3_v phimoe step3_vl vipllava smolvlm",
         NULL,
         {NULL}},
    [MEGA_CLASS_GPT2] = {"GPT2Tokenizer CodeGenTokenizer",
                         "blip-2 codegen dbrx emu3 gpt2 gpt_neo gptj hyperclovax_vision_v2 instructblip jais2 opt phi "
                         "starcoder2",
                         "BPE", ROLES(END_OF_TEXT, END_OF_TEXT, END_OF_TEXT, NULL, NULL, NULL, NULL)},
    [MEGA_CLASS_ROBERTA] =
        {"RobertaTokenizer BartTokenizer LEDTokenizer MvpTokenizer",
         "bart bridgetower clap data2vec-text florence2 ibert led lilt longformer mega mra mvp roberta "
         "roberta-prelayernorm",
         "BPE", ROLES("<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>")},
    [MEGA_CLASS_NEOX] = {"GPTNeoXTokenizer", "falcon_mamba gpt_neox mamba mamba2 mpt olmo olmoe rwkv xlstm", "BPE",
                         ROLES(END_OF_TEXT, END_OF_TEXT, END_OF_TEXT, NULL, "<|padding|>", NULL, NULL)},
    [MEGA_CLASS_QWEN2] =
        {"Qwen2Tokenizer",
         "audioflamingo3 colqwen2 internvl ovis2 qwen2 qwen2_5_omni qwen2_5_vl qwen2_audio qwen2_moe "
         "qwen2_vl qwen3 qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe qwen3_vl qwen3_vl_moe vibevoice",
         "BPE", ROLES(NULL, END_OF_TEXT, END_OF_TEXT, NULL, END_OF_TEXT, NULL, NULL)},
    [MEGA_CLASS_QWEN35] = {"Qwen3_5Tokenizer", "qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen4_exp", "BPE",
                           ROLES(NULL, END_OF_TEXT, END_OF_TEXT, NULL, END_OF_TEXT, NULL, NULL)},
    [MEGA_CLASS_LLAMA] = {"LlamaTokenizer", "idefics idefics2", "BPE",
                          ROLES("<s>", "</s>", "<unk>", NULL, NULL, NULL, NULL)},
    [MEGA_CLASS_GEMMA] =
        {"GemmaTokenizer",
         "gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma shieldgemma2 t5gemma zaya", "BPE",
         ROLES("<bos>", "<eos>", "<unk>", NULL, "<pad>", NULL, "<mask>")},
    [MEGA_CLASS_BERT] = {"BertTokenizer DistilBertTokenizer ElectraTokenizer LxmertTokenizer MobileBertTokenizer "
                         "SqueezeBertTokenizer",
                         "align bark bert blip bros chinese_clip convbert distilbert electra ernie flava git layoutlm "
                         "lxmert megatron-bert mobilebert nezha nomic_bert qdqbert realm retribert squeezebert vilt "
                         "visual_bert",
                         "WordPiece", ROLES(NULL, NULL, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]")},
    [MEGA_CLASS_T5] = {"T5Tokenizer", "mt5 musicgen musicgen_melody switch_transformers t5", "Unigram",
                       ROLES(NULL, "</s>", "<unk>", NULL, "<pad>", NULL, NULL)},
    [MEGA_CLASS_XLMR] = {"XLMRobertaTokenizer", "gte jina_embeddings_v3 metaclip_2 trocr xlm-roberta xmod", "Unigram",
                         ROLES("<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>")},
    [MEGA_CLASS_ALBERT] = {"AlbertTokenizer", "albert yoso", "Unigram",
                           ROLES("[CLS]", "[SEP]", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]")},
};

/* Classes with steps of their own that are not built. Any other name means tokenizer.json as it is. */
static const char not_built[] =
    "BarthezTokenizer BartphoTokenizer BertGenerationTokenizer BertJapaneseTokenizer BertTokenizerLegacy "
    "BertweetTokenizer BigBirdTokenizer BioGptTokenizer BlenderbotSmallTokenizer BlenderbotTokenizer ByT5Tokenizer "
    "CLIPTokenizer CTRLTokenizer CamembertTokenizer CanineTokenizer ClvpTokenizer CodeLlamaTokenizer CohereTokenizer "
    "ConvBertTokenizer CpmAntTokenizer CpmTokenizer DPRContextEncoderTokenizer DPRQuestionEncoderTokenizer "
    "DPRReaderTokenizer DebertaTokenizer DebertaV2Tokenizer DiaTokenizer EsmTokenizer EsmcTokenizer FNetTokenizer "
    "FSMTTokenizer FlaubertTokenizer FunnelTokenizer GPTNeoXJapaneseTokenizer GPTSw3Tokenizer HerbertTokenizer "
    "LasrTokenizer LayoutLMv2Tokenizer LayoutLMv3Tokenizer LayoutXLMTokenizer LukeTokenizer M2M100Tokenizer "
    "MBart50Tokenizer MBartTokenizer MLukeTokenizer MPNetTokenizer MarianTokenizer MarkupLMTokenizer MgpstrTokenizer "
    "MyT5Tokenizer NllbTokenizer NougatTokenizer OpenAIGPTTokenizer PLBartTokenizer ParakeetTokenizer PegasusTokenizer "
    "PerceiverTokenizer PhobertTokenizer Pop2PianoTokenizer ProphetNetTokenizer RagTokenizer ReformerTokenizer "
    "RemBertTokenizer RoCBertTokenizer RoFormerTokenizer SeamlessM4TTokenizer Siglip2Tokenizer SiglipTokenizer "
    "Speech2TextTokenizer SpeechT5Tokenizer SplinterTokenizer TapasTokenizer Tipsv2Tokenizer UdopTokenizer "
    "VideoPrismTokenizer VitsTokenizer Wav2Vec2CTCTokenizer WhisperTokenizer XGLMTokenizer XLMTokenizer XLNetTokenizer";

/* Model types whose folders name a wrong class, so that the model's own counts. */
static const char misnamed[] = "qwen2 qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen4_exp hyperclovax_vision_v2";

static bool lists(const char *words, const char *name, size_t n)
{
    for (const char *at = words; n > 0 && (at = strstr(at, name)) != NULL; at++)
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) return true;
    return false;
}

static bool classes_find_named(const char *name, mega_class *out)
{
    for (int i = 0; i < MEGA_CLASSES; i++) {
        *out = (mega_class)i;
        if (lists(rows[i].names, name, strlen(name))) return true;
    }
    *out = MEGA_CLASS_FILE;
    return !lists(not_built, name, strlen(name));
}

/* *out: MEGA_CLASSES: `transformers` has no class for this type of model. */
static void find_model_type(const char *model_type, mega_class *out)
{
    int i = 0;
    while (i < MEGA_CLASSES && !lists(rows[i].model_types, model_type, strlen(model_type))) i++;
    *out = (mega_class)i;
}

bool mega_class_find(const char *named, const char *model_type, bool byte_level, mega_class *out)
{
    mega_class of_model, of_name;
    char name[64] = "";
    size_t n = strlen(named);
    if (n > 4 && strcmp(named + n - 4, "Fast") == 0) n -= 4;
    if (n < sizeof name) memcpy(name, named, n);
    find_model_type(model_type, &of_model);
    const bool built = classes_find_named(name, &of_name);
    *out = of_model == MEGA_CLASSES ? MEGA_CLASS_FILE : of_model;
    if (named[0] == '\0') return true;
    const bool same = of_model == MEGA_CLASSES || (built && of_name == of_model);
    const bool is_misnamed = lists(misnamed, model_type, strlen(model_type));
    if (of_name == MEGA_CLASS_LLAMA && byte_level && !is_misnamed) *out = MEGA_CLASS_FILE;
    else if (same)
        *out = of_name;
    else if (of_model == MEGA_CLASS_FILE)
        return true;
    else if (!is_misnamed)
        *out = of_name;
    return built || *out != of_name;
}

const char *mega_class_model(mega_class class)
{
    return rows[class].model;
}

const char *mega_class_role(mega_class class, mega_role role)
{
    return rows[class].role[role];
}

#define MARK       "\xE2\x96\x81"
#define BYTE_LEVEL "{\"type\":\"ByteLevel\"}"

static void put_byte_level(mega_buffer *out, bool blank, bool pattern)
{
    mega_buffer_printf(out, "{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,\"use_regex\":%s}",
                       blank ? "true" : "false", pattern ? "true" : "false");
}

static void put_qwen(const mega_folder_rules *r, mega_class_steps *s)
{
    static const char split[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?%s+|\\\\p{N}| "
                                "?[^\\\\s\\\\p{L}%s\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+";
    const bool marks = r->class == MEGA_CLASS_QWEN35;
    mega_buffer_puts(&s->normalizer, "{\"type\":\"NFC\"}");
    mega_buffer_puts(&s->pre_tokenizer, "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{"
                                        "\"Regex\":\"");
    mega_buffer_printf(&s->pre_tokenizer, split, marks ? "[\\\\p{L}\\\\p{M}]" : "\\\\p{L}", marks ? "\\\\p{M}" : "");
    mega_buffer_puts(&s->pre_tokenizer, "\"},\"behavior\":\"Isolated\",\"invert\":false},");
    put_byte_level(&s->pre_tokenizer, r->prefix_blank > 0, false);
    mega_buffer_puts(&s->pre_tokenizer, "]}");
}

/* Blanks are marks: of all texts, or of those at a begin alone. */
static void put_metaspace(mega_buffer *out, const char *scheme, bool split)
{
    mega_buffer_printf(out,
                       "{\"type\":\"Metaspace\",\"replacement\":\"" MARK "\",\"prepend_scheme\":\"%s\",\"split\":%s}",
                       scheme, split ? "true" : "false");
}

static void put_characters(const mega_folder_rules *r, mega_class_steps *s)
{
    const bool llama = r->class == MEGA_CLASS_LLAMA, blank = llama && r->prefix_blank != 0;
    if (llama) {
        put_metaspace(&s->pre_tokenizer, !blank ? "never" : r->legacy > 0 ? "always" : "first", false);
    } else {
        mega_buffer_puts(&s->normalizer,
                         "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" MARK "\"}");
        mega_buffer_puts(&s->pre_tokenizer, "{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},\"behavior\":"
                                            "\"MergedWithPrevious\",\"invert\":false}");
    }
    mega_buffer_printf(&s->decoder,
                       "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"" MARK
                       "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}%s]}",
                       blank ? ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}" : "");
}

static void put_pieces(const mega_folder_rules *r, const char *precompiled, size_t n, mega_class_steps *s)
{
    static const char replace[] = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"%s\"},\"content\":\"\\\"\"},";
    const char *scheme = r->class == MEGA_CLASS_T5 || r->prefix_blank != 0 ? "always" : "never", *between = "";
    if (r->class == MEGA_CLASS_ALBERT) {
        mega_buffer_puts(&s->normalizer, "{\"type\":\"Sequence\",\"normalizers\":[");
        mega_buffer_printf(&s->normalizer, replace, "``");
        mega_buffer_printf(&s->normalizer, replace, "''");
        s->normalizer.size--;
        if (r->keep_accents <= 0) mega_buffer_puts(&s->normalizer, ",{\"type\":\"NFKD\"},{\"type\":\"StripAccents\"}");
        if (r->lower != 0) mega_buffer_puts(&s->normalizer, ",{\"type\":\"Lowercase\"}");
        between = ",";
    }
    if (precompiled != NULL) {
        mega_buffer_puts(&s->normalizer, between);
        mega_buffer_append(&s->normalizer, precompiled, n);
    }
    if (r->class == MEGA_CLASS_ALBERT) mega_buffer_puts(&s->normalizer, "]}");
    mega_buffer_puts(&s->pre_tokenizer, "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"},");
    put_metaspace(&s->pre_tokenizer, scheme, true);
    mega_buffer_puts(&s->pre_tokenizer, "]}");
    put_metaspace(&s->decoder, scheme, true);
}

static void put_bert(const mega_folder_rules *r, mega_class_steps *s)
{
    mega_buffer_printf(
        &s->normalizer,
        "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":%s,\"strip_accents\":%s,"
        "\"lowercase\":%s}",
        r->chinese != 0 ? "true" : "false",
        r->strip < 0   ? "null"
        : r->strip > 0 ? "true"
                       : "false",
        r->lower != 0 ? "true" : "false");
    mega_buffer_puts(&s->pre_tokenizer, "{\"type\":\"BertPreTokenizer\"}");
    mega_buffer_puts(&s->decoder, "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}");
}

static void put_unk(mega_buffer *out, const mega_folder_rules *r)
{
    const mega_rule_token *unk = &r->role[MEGA_ROLE_UNK].token;
    mega_buffer_puts(out, ",\"unk_token\":");
    mega_json_quote(out, unk->content == NULL ? "None" : unk->content, unk->content == NULL ? 4 : unk->size);
}

static void put_settings(const mega_folder_rules *r, mega_class_steps *s)
{
    mega_buffer *out = &s->settings;
    switch (r->class) {
    case MEGA_CLASS_LLAMA:
    case MEGA_CLASS_GEMMA:
        mega_buffer_puts(out, "{\"fuse_unk\":true,\"byte_fallback\":true");
        if (r->class == MEGA_CLASS_GEMMA) put_unk(out, r);
        break;
    case MEGA_CLASS_BERT:
        mega_buffer_puts(out, "{\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100");
        put_unk(out, r);
        break;
    case MEGA_CLASS_T5: mega_buffer_puts(out, "{\"unk_id\":2,\"byte_fallback\":false"); break;
    case MEGA_CLASS_XLMR: mega_buffer_puts(out, "{\"unk_id\":3,\"byte_fallback\":false"); break;
    case MEGA_CLASS_ALBERT: mega_buffer_puts(out, "{\"unk_id\":1,\"byte_fallback\":false"); break;
    default: mega_buffer_puts(out, "{\"fuse_unk\":false"); break;
    }
    mega_buffer_puts(out, "}");
}

static mega_status steps_check(const mega_class_steps *s, const char *name)
{
    MEGA_TRY(mega_buffer_check(&s->normalizer, name));
    MEGA_TRY(mega_buffer_check(&s->pre_tokenizer, name));
    MEGA_TRY(mega_buffer_check(&s->decoder, name));
    return mega_buffer_check(&s->settings, name);
}

mega_status mega_class_write_steps(const mega_folder_rules *r, const char *precompiled, size_t n, mega_class_steps *s)
{
    switch (r->class) {
    case MEGA_CLASS_FILE: return MEGA_OK;
    case MEGA_CLASS_LLAMA:
    case MEGA_CLASS_GEMMA: put_characters(r, s); break;
    case MEGA_CLASS_BERT: put_bert(r, s); break;
    case MEGA_CLASS_T5:
    case MEGA_CLASS_XLMR:
    case MEGA_CLASS_ALBERT: put_pieces(r, precompiled, n, s); break;
    default:
        if (r->class == MEGA_CLASS_NEOX) mega_buffer_puts(&s->normalizer, "{\"type\":\"NFC\"}");
        if (r->class == MEGA_CLASS_QWEN2 || r->class == MEGA_CLASS_QWEN35) put_qwen(r, s);
        else
            put_byte_level(&s->pre_tokenizer, r->prefix_blank > 0, true);
        mega_buffer_puts(&s->decoder, BYTE_LEVEL);
    }
    put_settings(r, s);
    return steps_check(s, r->config);
}

void mega_class_steps_fini(mega_class_steps *s)
{
    mega_buffer_fini(&s->normalizer);
    mega_buffer_fini(&s->pre_tokenizer);
    mega_buffer_fini(&s->decoder);
    mega_buffer_fini(&s->settings);
}
