/* Initial values. The value of an element depends only on the seed, the name of its checkpoint tensor and its
 * position there (without padding, oriented as in memory), not on the layout of ranks or the padding. */
#include "megalith/assert.h"
#include "megalith/device_memory.h"
#include "megalith/normal.h"
#include "megalith/philox.h"
#include "parameter_impl.h"

#include <math.h>

/* U[-1, 1): word i%4 of counter i/4. The third counter word makes it independent of the normal numbers for the same
 * name. */
static double init_uniform(uint32_t seed, uint32_t name_hash, uint64_t index)
{
    const uint64_t block = index >> 2;
    const mega_philox r =
        mega_philox4x32((mega_philox){{(uint32_t)block, (uint32_t)(block >> 32), 0x554e4946u, 0}}, seed, name_hash);
    return ((double)r.v[index & 3] + 0.5) * (2.0 / 4294967296.0) - 1.0;
}

/* Normal numbers are generated in runs of this length; values are written to the masters by pieces of WINDOW. */
enum { RUN = 512, WINDOW = 4096 };

/* Values for consecutive elements of the masters, the first of which is at `to`. */
typedef struct window {
    char *to;
    mega_dtype acc;
    int count;
    union {
        float of_32[WINDOW];
        double of_64[WINDOW];
    } value;
} window;

static void window_flush(window *w)
{
    const size_t bytes = (size_t)w->count * mega_dtype_size(w->acc);
    mega_device_write(w->to, &w->value, bytes);
    w->to += bytes;
    w->count = 0;
}

static void window_add(window *w, double value)
{
    if (w->acc == MEGA_F64) w->value.of_64[w->count++] = value;
    else
        w->value.of_32[w->count++] = (float)value;
    if (w->count == WINDOW) window_flush(w);
}

/* Rows of the slice that are in one checkpoint tensor. */
typedef struct origin {
    mega_param_stretch at;
    int64_t shape[2]; /* shape of the tensor */
    uint32_t hash;    /* hash of its name */
    double scale;     /* standard deviation, or half the width of the uniform range */
} origin;

typedef struct fill {
    const mega_param *r;
    uint32_t seed;
    origin origin[MEGA_PARAM_PARTS];
    int num_origins;
    uint32_t hash; /* `normal` holds elements RUN * run … of the tensor with this hash; run UINT64_MAX: none yet */
    uint64_t run;
    double normal[RUN];
} fill;

static double init_value_at(fill *f, const origin *o, int64_t row, int64_t col)
{
    if (row >= o->shape[0] || col >= o->shape[1]) return 0.0; /* padding */
    const uint64_t index = (uint64_t)((f->r->stack_at * o->shape[0] + row) * o->shape[1] + col);
    switch (f->r->init) {
    case MEGA_INIT_ZERO: return 0.0;
    case MEGA_INIT_ONE: return 1.0;
    case MEGA_INIT_XAVIER_UNIFORM:
    case MEGA_INIT_FAN_IN: return o->scale * init_uniform(f->seed, o->hash, index);
    case MEGA_INIT_NORMAL:
    case MEGA_INIT_KAIMING_NORMAL: break;
    }
    if (f->run != index / RUN || f->hash != o->hash) {
        f->run = index / RUN;
        f->hash = o->hash;
        mega_normal_pairs(f->normal, f->seed, o->hash, f->run * (RUN / 2), RUN / 2);
    }
    return o->scale * f->normal[index % RUN];
}

static double init_scale(const mega_param *r, const int64_t shape[2])
{
    const double out = (double)shape[0], in = (double)shape[1];
    switch (r->init) {
    case MEGA_INIT_XAVIER_UNIFORM: return sqrt(6.0 / (out + in));
    case MEGA_INIT_FAN_IN: return r->num_dims == 1 ? r->init_std : 1.0 / sqrt(in);
    case MEGA_INIT_KAIMING_NORMAL: return sqrt(2.0 / in);
    default: return r->init_std;
    }
}

static void find_origins(fill *f, const mega_params *p)
{
    const mega_param *r = f->r;
    mega_param_stretch stretch[MEGA_PARAM_PARTS];
    f->num_origins = mega_param_stretches(r, mega_params_cut(p, r), stretch);
    for (int i = 0; i < f->num_origins; i++) {
        origin *o = &f->origin[i];
        o->at = stretch[i];
        mega_param_file_shape(r, stretch[i].tensor, o->shape);
        o->hash = mega_name_hash(mega_param_file_name(r, stretch[i].tensor));
        o->scale = init_scale(r, o->shape);
    }
}

/* Returns the tensor that holds index `local` along cut_dim; *out receives the index there. */
static const origin *origin_of(const fill *f, int64_t local, int64_t *out)
{
    int i = f->num_origins - 1;
    while (f->origin[i].at.local > local) i--;
    const mega_param_stretch *s = &f->origin[i].at;
    const int64_t within = local - s->local;
    *out = s->file + within / s->rows * s->stride + within % s->rows;
    return &f->origin[i];
}

typedef struct fill_job {
    const mega_params *p;
    int index;
    uint32_t seed;
} fill_job;

/* Fills rows of one parameter. A value depends on its position alone, so any division of the rows gives the same
 * bits. */
static void init_fill_rows(void *user, int thread, int64_t begin, int64_t end)
{
    const fill_job *job = user;
    const mega_params *p = job->p;
    const mega_param *r = &p->param[job->index];
    fill f = {.r = r, .seed = job->seed, .run = UINT64_MAX};
    const mega_range owned = mega_params_owned(p, job->index);
    const int64_t cols = r->local_shape[1], last = owned.first + owned.count;
    const int64_t first = begin * cols > owned.first ? begin * cols : owned.first;
    (void)thread;
    if (first >= last || first >= end * cols) return;
    window w; /* its values are not cleared first */
    w.acc = p->acc;
    w.count = 0;
    w.to = (char *)mega_params_master(p, job->index) + (first - owned.first) * (int64_t)mega_dtype_size(p->acc);
    find_origins(&f, p);
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i, col;
        const origin *o = r->cut_dim == 0 ? origin_of(&f, i, &row) : NULL;
        for (int64_t j = 0; j < cols; j++) {
            if (i * cols + j < owned.first || i * cols + j >= last) continue;
            col = j;
            if (r->cut_dim == 1) o = origin_of(&f, j, &col);
            window_add(&w, init_value_at(&f, o, row, col));
        }
    }
    window_flush(&w);
}

mega_status mega_params_initialize_team(mega_params *p, uint32_t seed, mega_team *team)
{
    MEGA_TRY(mega_params_check_buffer(p, "mega_params_initialize", MEGA_PARAMS_WEIGHTS));
    for (int i = 0; i < p->count; i++) {
        fill_job job = {p, i, seed};
        mega_team_for(team, p->param[i].local_shape[0], 1, init_fill_rows, &job);
    }
    return mega_params_publish(p);
}

mega_status mega_params_initialize(mega_params *p, uint32_t seed)
{
    return mega_params_initialize_team(p, seed, NULL);
}

mega_status mega_params_publish(mega_params *p)
{
    MEGA_TRY(mega_params_check_buffer(p, "mega_params_publish", MEGA_PARAMS_WEIGHTS));
    if (p->weight.data == p->master.data) return mega_params_gather(p);
    MEGA_ASSERT(mega_dtype_is_half(p->compute), "weights of type %s", mega_dtype_name(p->compute));
    for (int b = 0; b < p->num_buckets; b++) {
        const mega_range slice = mega_params_slice(p, b);
        mega_params_convert(p, mega_params_weight_at(p, b, slice.first), mega_params_weight_dtype(p, b),
                            mega_params_master_at(p, b, slice.first), p->acc, slice.count);
    }
    return mega_params_gather(p);
}
