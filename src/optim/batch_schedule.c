/* The ramp of the global batch size: it grows by one increment after every equal stretch of samples. */
#include "megalith/optim_options.h"
#include "megalith/schedule.h"

mega_status mega_batch_ramp_from_options(const mega_optim_options *o, int64_t ranks, mega_batch_ramp *out)
{
    const int64_t dp = ranks > 0 ? ranks : 1;
    const mega_batch_ramp r = {.start = o->rampup_batch_size[0],
                               .increment = o->rampup_batch_size[1],
                               .samples = o->rampup_batch_size[2],
                               .global_batch = o->global_batch_size,
                               .micro_step = o->micro_batch_size * dp};
    if (r.micro_step <= 0 || r.global_batch % r.micro_step != 0 || r.global_batch <= 0)
        return MEGA_FAIL(
            MEGA_ERR_USAGE,
            "--global-batch-size %lld is not a multiple of --micro-batch-size %lld times %lld data-parallel "
            "ranks; the next that is: %lld",
            (long long)r.global_batch, (long long)o->micro_batch_size, (long long)dp,
            r.micro_step > 0 ? (long long)((r.global_batch / r.micro_step + 1) * r.micro_step) : 1LL);
    if (r.samples == 0) {
        *out = r;
        return MEGA_OK;
    }
    if (r.start <= 0 || r.increment <= 0 || r.samples < 0 || r.start > r.global_batch ||
        (r.global_batch - r.start) % r.increment != 0)
        return MEGA_MISTAKE("--rampup-batch-size %lld %lld %lld: increments of %lld do not lead from %lld to "
                            "--global-batch-size %lld; the difference must be a multiple of the increment",
                            (long long)r.start, (long long)r.increment, (long long)r.samples, (long long)r.increment,
                            (long long)r.start, (long long)r.global_batch);
    if (r.start % r.micro_step != 0 || r.increment % r.micro_step != 0)
        return MEGA_MISTAKE("--rampup-batch-size %lld %lld %lld: start and increment must be multiples of "
                            "--micro-batch-size times the data-parallel size, which is %lld",
                            (long long)r.start, (long long)r.increment, (long long)r.samples, (long long)r.micro_step);
    *out = r;
    return MEGA_OK;
}

mega_status mega_batch_ramp_check(const mega_batch_ramp *r)
{
    if (r->micro_step < 1 || r->global_batch < 1 || r->global_batch % r->micro_step != 0)
        return MEGA_MISTAKE("batch.global_batch %lld; expected a multiple of batch.micro_step (%lld)",
                            (long long)r->global_batch, (long long)r->micro_step);
    if (r->samples == 0) return MEGA_OK;
    if (r->samples < 0)
        return MEGA_MISTAKE("batch.samples %lld; expected the samples of the ramp, or 0 for none",
                            (long long)r->samples);
    if (r->start < 1 || r->start > r->global_batch || r->start % r->micro_step != 0)
        return MEGA_MISTAKE("batch.start %lld: a ramp begins with a multiple of batch.micro_step (%lld) of at most "
                            "batch.global_batch (%lld)",
                            (long long)r->start, (long long)r->micro_step, (long long)r->global_batch);
    if (r->start == r->global_batch) return MEGA_OK;
    if (r->increment >= 1 && r->increment % r->micro_step == 0 && (r->global_batch - r->start) % r->increment == 0)
        return MEGA_OK;
    return MEGA_MISTAKE(
        "batch.increment %lld: expected a multiple of batch.micro_step (%lld) that leads from batch.start "
        "(%lld) to batch.global_batch (%lld)",
        (long long)r->increment, (long long)r->micro_step, (long long)r->start, (long long)r->global_batch);
}

int64_t mega_batch_ramp_at(const mega_batch_ramp *r, int64_t consumed_samples)
{
    if (r->samples == 0 || consumed_samples > r->samples || r->start == r->global_batch) return r->global_batch;
    const double stretches = (double)((r->global_batch - r->start) / r->increment);
    const double stretch = (double)r->samples / stretches; /* samples at one batch size */
    const int64_t batch = r->start + (int64_t)((double)consumed_samples / stretch) * r->increment;
    return batch < r->global_batch ? batch : r->global_batch;
}

int64_t mega_batch_ramp_iterations(const mega_batch_ramp *r, int64_t consumed, int64_t train_samples)
{
    int64_t iterations = 0;
    if (consumed >= train_samples) return 0;
    if (r->samples > 0)
        for (; consumed <= r->samples && consumed < train_samples; iterations++)
            consumed += mega_batch_ramp_at(r, consumed);
    if (consumed > train_samples) return iterations - 1; /* the last batch of the ramp would not be full */
    return iterations + (train_samples - consumed) / r->global_batch;
}
