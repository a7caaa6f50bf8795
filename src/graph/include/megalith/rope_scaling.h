/* Kinds of scaling of rotary positions, which families of models read and layers compute. */
#ifndef MEGALITH_ROPE_SCALING_H
#define MEGALITH_ROPE_SCALING_H

/* How the angles of rotary position embedding change for sequences that are longer than those of the pretraining. The
 * names are those of rope_scaling in a configuration of transformers. */
typedef enum mega_rope_scaling {
    MEGA_ROPE_NONE,
    MEGA_ROPE_LINEAR,  /* factor */
    MEGA_ROPE_DYNAMIC, /* factor, max_positions */
    MEGA_ROPE_YARN,    /* factor or max_positions, original_positions, attention_factor, beta_fast, beta_slow, mscale,
                          mscale_all_dim, no_truncate */
    MEGA_ROPE_LLAMA3,  /* factor, low_freq_factor, high_freq_factor, original_positions */
    MEGA_ROPE_LONGROPE /* factor or max_positions, original_positions, attention_factor, long_factor, short_factor */
} mega_rope_scaling;

#endif
