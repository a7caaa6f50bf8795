/* Granite 3 with experts and an MLP beside them. */
#include "hf_impl.h"

static const mega_family_key *const keys[] = {hf_granitemoe_rows, NULL};
static const char *const architecture[] = {"GraniteMoeSharedForCausalLM", "GraniteMoeSharedModel", NULL};
static const char *const ignored[] = {"*.rotary_emb.inv_freq", NULL};

static const mega_family_names names = {HF_GRANITEMOE_NAMES, .shared_up = "shared_mlp.input_linear",
                                        .shared_down = "shared_mlp.output_linear"};

static void granitemoeshared_finish(hf_reader *r, mega_model_shape *s)
{
    s->net.experts.shared = hf_take_whole(r, "shared_intermediate_size", 0);
    hf_granitemoe_finish(r, s);
}

static void granitemoeshared_write(const mega_model_shape *s, void *user, hf_put *put)
{
    hf_put_int(user, put, "shared_intermediate_size", s->net.experts.shared);
    hf_granitemoe_write(s, user, put);
}

MEGA_FAMILY(57, granitemoeshared) = {
    HF_TABLES("granitemoeshared"),     .net = {HF_GRANITEMOE_NET},     .rope_keys = " ", .theta = 10000.0,
    .finish = granitemoeshared_finish, .write = granitemoeshared_write};
