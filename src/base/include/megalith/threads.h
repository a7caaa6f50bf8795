/* A team of threads for data-parallel loops, and the cores and instruction sets of the machine. */
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

/* Creates a team whose thread 0 is the caller; the other size-1 threads are started and wait. size >= 1. Returns
 * MEGA_ERR_USAGE or MEGA_ERR_MEMORY. */
MEGA_CHECK_RESULT mega_status mega_team_create(int size, mega_team **out);
/* NULL is allowed. While an engine, a generator or a run uses the team, it does nothing but warn. */
void mega_team_destroy(mega_team *team);
int mega_team_size(const mega_team *team); /* 1 for NULL */

/* Runs work(user, thread, size) once on every thread of the team and returns when all are done. Not reentrant: must not
 * be called from inside work. A NULL team runs it on the caller alone. */
typedef void mega_team_work(void *user, int thread, int size);
void mega_team_run(mega_team *team, mega_team_work *work, void *user);

/* Splits items [0, n) into ranges that begin at multiples of `grain`, calls part for each range on whichever thread is
 * free, and returns when all are done. A thread may get none, one or many ranges; the result must not depend on which:
 * scratch may belong to a thread, a sum may not. If the team is larger than mega_cpu_count(), only that number of
 * threads take part. Not reentrant, for one calling thread at a time, and not in a forked child; part must return. A
 * NULL team calls part once, with all items. If ranges must be taken in ascending order (pieces of a file), let every
 * thread count up one counter in a run of n = size. */
typedef void mega_team_part(void *user, int thread, int64_t begin, int64_t end);
void mega_team_for(mega_team *team, int64_t n, int64_t grain, mega_team_part *part, void *user);
void mega_team_zero(mega_team *team, void *data, size_t bytes);
/* Returns the seconds so far during which the caller, its own part done, has waited for other threads in mega_team_for;
 * 0 for NULL. */
double mega_team_waited(const mega_team *team);

/* Makes long work that only reads (loading a checkpoint, for example) end with MEGA_ERR_INTERRUPTED once *stop is not
 * 0. `stop` is borrowed; NULL, the initial value, means never. */
void mega_team_stop_on(mega_team *team, const volatile sig_atomic_t *stop);
bool mega_team_is_stopped(const mega_team *team); /* false for NULL */

/* Computes one thread's share of n items: contiguous, sizes differ by at most one `grain`; begin and end are multiples
 * of grain except for the last end. */
static inline void mega_team_share(int64_t n, int64_t grain, int thread, int size, int64_t *begin, int64_t *end)
{
    const int64_t chunks = (n + grain - 1) / grain;
    const int64_t b = chunks * thread / size * grain, e = chunks * (thread + 1) / size * grain;
    *begin = b < n ? b : n;
    *end = e < n ? e : n;
}

/* Returns the number of cores that this process may use, according to affinity mask and cgroup quota; at least 1. */
int mega_cpu_count(void);
/* The two limits behind mega_cpu_count: cores in the affinity mask; cores by the quota of the control group, 0 = no
 * quota. */
int mega_cpu_affinity(void);
double mega_cpu_quota(void);
/* Returns OMP_NUM_THREADS (the first number of a list); 0 if it is unset or not a number from 1 to 4096. */
int mega_threads_from_environment(void);
/* Returns OMP_NUM_THREADS as above, or mega_cpu_count() if that is 0. */
int mega_default_threads(void);

/* Instruction sets that kernels may use, detected once; each includes the ones before it. The environment variable
 * MEGA_ISA=portable|avx2|avx512|avx512_bf16|amx lowers the result (never raises it). AMX needs the system's permission
 * to use its tiles, which the first call requests. */
typedef enum mega_isa {
    MEGA_ISA_PORTABLE = 0,
    MEGA_ISA_AVX2,
    MEGA_ISA_AVX512,
    MEGA_ISA_AVX512_BF16,
    MEGA_ISA_AMX
} mega_isa;
mega_isa mega_cpu_isa(void);
/* Limits what mega_cpu_isa returns, in the whole process and for good: ranks on different processors agree on an
 * instruction set that all of them have. Call it before anything computes. */
void mega_cpu_isa_lower(mega_isa most);
/* Makes mega_cpu_isa return `target`, though this processor may not have it, and returns what it was: for a plan of
 * programs that another machine will run. Set it back before anything computes. */
mega_isa mega_cpu_isa_plan(mega_isa target);
const char *mega_isa_name(mega_isa isa);
const char *mega_cpu_model(char *out, int size); /* "AMD EPYC …" */

/* Writes the build id (the linker's GNU build id) of the program or library that holds this function, in hexadecimal;
 * "unknown" if it was linked without one. Equal for copies of one build, different for any two builds that differ. */
enum { MEGA_BUILD_ID_TEXT = 2 * 32 + 1 };
void mega_build_id(char out[MEGA_BUILD_ID_TEXT]);

/* Runs run(user) once on a new thread that receives no signals sent to the process; the existing thread gets them.
 * Returns MEGA_ERR_MEMORY if it cannot be started. mega_thread_join waits for its end and frees it; NULL is allowed. */
typedef struct mega_thread mega_thread;
MEGA_CHECK_RESULT mega_status mega_thread_start(void (*run)(void *user), void *user, mega_thread **out);
void mega_thread_join(mega_thread *thread);
bool mega_thread_is_this(const mega_thread *thread); /* whether the caller runs on it; NULL: false */
uint64_t mega_thread_id(void);                       /* of the calling thread; never 0 */

double mega_time_now(void); /* seconds, monotonic */

#ifdef __cplusplus
}
#endif

#endif
