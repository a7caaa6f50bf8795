/* The peak speed of the machine, with which the log compares a run: the best measurement from before and during
 * training. A measurement while other programs are busy is too low; it is marked as doubtful and repeated. */
#include "train_impl.h"

#include <stdio.h>

#define NEARLY   0.9
#define REPEAT_S 10.0 /* seconds between measurements (some 50 ms each) while the peak is doubtful */

void train_peak_add(train_peak *p, mega_peak measured)
{
    const bool is_trusted = measured.share >= MEGA_PEAK_SHARE;
    if (measured.flops > p->flops) {
        p->flops = measured.flops;
        p->is_doubtful = !is_trusted;
    } else if (is_trusted && measured.flops > NEARLY * p->flops) {
        p->is_doubtful = false; /* with all cores the machine is no faster: the doubtful peak was right */
    }
}

double train_peak_percent(train_peak *p, double flops)
{
    if (flops > p->flops) {
        p->flops = flops; /* if the run reaches this speed, so does the machine */
        p->is_doubtful = true;
    }
    return p->flops > 0 ? 100 * flops / p->flops : 0;
}

void train_peak_measure(trainer *t)
{
    if (train_has_gpu(t)) {
        t->peak.flops = train_gpu_peak(t);
        return;
    }
    train_peak_add(&t->peak, mega_cpu_peak_measure(t->team, t->cfg->engine.backend.params_dtype));
    t->peak.measured_at = mega_time_now();
}

void train_peak_measure_if_doubtful(trainer *t)
{
    if (t->peak.is_doubtful && mega_time_now() - t->peak.measured_at >= REPEAT_S) train_peak_measure(t);
}

const char *train_peak_note(char *out, int size, const train_peak *p, const mega_cpu_load *load, int threads)
{
    char text[96];
    const bool is_marked = mega_cpu_load_missed(load, threads) > MEGA_CPU_LOAD_MARK;
    const char *taken = is_marked ? mega_cpu_load_text(text, sizeof text, load) : NULL;
    const bool has_both = p->is_doubtful && taken != NULL;
    if (!p->is_doubtful && taken == NULL) return "";
    snprintf(out, (size_t)size, " (%s%s%s)", p->is_doubtful ? "doubtful" : "", has_both ? "; " : "",
             taken != NULL ? taken : "");
    return out;
}
