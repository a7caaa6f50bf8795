/* A team of threads for data-parallel loops, and what the machine offers. */
#ifndef MEGALITH_THREADS_H
#define MEGALITH_THREADS_H

#include "megalith/status.h"
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_team mega_team;

/* The caller is thread 0; size-1 threads are started and wait. size >= 1. */
MEGA_CHECK_RESULT mega_status mega_team_create(mega_team **out, int size);
void mega_team_destroy(mega_team *team);
int mega_team_size(const mega_team *team); /* 1 for NULL */

/* Runs work(user, thread, size) once on every thread of the team and returns when all are done. Not reentrant: must not
 * be called from inside work. A NULL team runs it on the caller alone. */
typedef void mega_team_work(void *user, int thread, int size);
void mega_team_run(mega_team *team, mega_team_work *work, void *user);

/* Items [0, n), in ranges that begin at multiples of `grain`: part is called with one range after the other, on the
 * threads that are free, and mega_team_for returns when all are done. A thread may get none, one or many; which range
 * and which thread must not change a bit of the result: scratch may be one a thread, sums may not. Of a team larger
 * than mega_cpu_count() no more threads than that take part: the others would only take turns with them. Not reentrant,
 * for one thread at a time, and not in a forked child; part must return. A NULL team calls part once, with all. Where
 * ranges must be taken in rising order (pieces of a file), let every thread count up one counter in a run of n = size.
 */
typedef void mega_team_part(void *user, int thread, int64_t begin, int64_t end);
void mega_team_for(mega_team *team, int64_t n, int64_t grain, mega_team_part *part, void *user);
void mega_team_zero(mega_team *team, void *data, size_t bytes);
/* Seconds so far that the caller, its own part done, has waited for other threads in mega_team_for; 0 for NULL. */
double mega_team_waited(const mega_team *team);

/* Long work that only reads (a checkpoint, say) ends with MEGA_ERR_INTERRUPTED once *stop is not 0. `stop` is borrowed;
 * NULL, as at first: it is never asked to. */
void mega_team_stop_on(mega_team *team, const volatile sig_atomic_t *stop);
bool mega_team_is_stopped(const mega_team *team); /* false for NULL */

/* Share of n items for one thread: contiguous, sizes differ by at most one `grain`; begin and end are multiples of
 * grain but for the last end. */
static inline void mega_team_share(int64_t n, int64_t grain, int thread, int size, int64_t *begin, int64_t *end)
{
    const int64_t chunks = (n + grain - 1) / grain;
    const int64_t b = chunks * thread / size * grain, e = chunks * (thread + 1) / size * grain;
    *begin = b < n ? b : n;
    *end = e < n ? e : n;
}

/* Cores this process may use: affinity mask and cgroup quota respected, at least 1. */
int mega_cpu_count(void);
/* The two parts of it: cores in the affinity mask; cores by the quota of the control group, 0 = no quota. */
int mega_cpu_affinity(void);
double mega_cpu_quota(void);
/* OMP_NUM_THREADS (of a list the first number); 0 when it is not set, or holds no number from 1 to 4096. */
int mega_threads_from_environment(void);
/* The same, or mega_cpu_count() where that is 0. */
int mega_default_threads(void);

/* Instruction sets that kernels may use, read from the CPU once. MEGA_ISA=portable|avx2|avx512|avx512_bf16|amx in the
 * environment lowers it (never raises it). Each includes those before it. AMX is found where the system lets this
 * process use its tiles, which the first call asks for. */
typedef enum mega_isa {
    MEGA_ISA_PORTABLE = 0,
    MEGA_ISA_AVX2,
    MEGA_ISA_AVX512,
    MEGA_ISA_AVX512_BF16,
    MEGA_ISA_AMX
} mega_isa;
mega_isa mega_cpu_isa(void);
/* From here on mega_cpu_isa answers at most this, in the whole process and for good: ranks on different processors
 * agree on what all of them have. Call it before anything computes. */
void mega_cpu_isa_lower(mega_isa most);
const char *mega_isa_name(mega_isa isa);
const char *mega_cpu_model(char *out, int size); /* "AMD EPYC …" */

/* The linker's hash of the program or library that holds this function (GNU build id), in hexadecimal; "unknown" where
 * it was linked without one. Equal for copies of one build, different for two builds that differ anywhere. */
enum { MEGA_BUILD_ID_TEXT = 2 * 32 + 1 };
void mega_build_id(char out[MEGA_BUILD_ID_TEXT]);

/* Runs run(user) once on a thread of its own, which signals of the process do not reach: they go to the thread that was
 * there first. Returns MEGA_ERR_MEMORY. mega_thread_join waits for its end and frees it; NULL is allowed. */
typedef struct mega_thread mega_thread;
MEGA_CHECK_RESULT mega_status mega_thread_start(mega_thread **out, void (*run)(void *user), void *user);
void mega_thread_join(mega_thread *thread);

double mega_time_now(void); /* seconds, monotonic */

#ifdef __cplusplus
}
#endif

#endif
