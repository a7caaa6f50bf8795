/* Runs in a rank: sets the environment that torchrun gives its ranks, from the MPI launcher's variables, and executes
 * the user's own program. */
#include "launch_impl.h"
#include "megalith/threads.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void set_number(const char *name, int value)
{
    char text[32];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static int local_size(int size)
{
    static const char *const name[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"};
    for (size_t i = 0; i < sizeof name / sizeof name[0] && size > 1; i++)
        if (getenv(name[i]) != NULL && atoi(getenv(name[i])) > 0) return atoi(getenv(name[i]));
    const int listed = size > 1 ? launch_slurm_local_size() : 0;
    return listed > 0 ? listed : size;
}

/* Sets OMP_NUM_THREADS so that the ranks of a host share its cores, unless the user has set it. */
static void share_cores(int ranks)
{
    const int share = mega_cpu_count() / ranks;
    if (ranks > 1 && getenv("OMP_NUM_THREADS") == NULL) set_number("OMP_NUM_THREADS", share > 0 ? share : 1);
}

static void set_rank(void)
{
    int rank;
    const int size = mega_launched_ranks(&rank), ranks = local_size(size), local = launch_rank_local();
    set_number("RANK", rank);
    set_number("WORLD_SIZE", size);
    set_number("LOCAL_RANK", size > 1 && local >= 0 ? local : 0);
    set_number("LOCAL_WORLD_SIZE", ranks);
    share_cores(ranks);
}

/* Exit statuses are those of a shell. */
int launch_start_rank(char **words)
{
    char mark[3], host[256] = "this host";
    for (; *words != NULL && strcmp(*words, "--") != 0; words++) {
        char *equals = strchr(*words, '=');
        if (equals == NULL) break;
        *equals = '\0';
        setenv(*words, equals + 1, 1);
    }
    if (words[0] == NULL || strcmp(words[0], "--") != 0 || words[1] == NULL) {
        fputs("megalith launch: error: " LAUNCH_START_RANK " is for the ranks that megalith launch starts\n", stderr);
        return 2;
    }
    words++;
    set_rank();
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    fflush(NULL);
    execv(words[0], words);
    const int why = errno;
    mega_launch_rank_mark(mark, MEGA_MARK_FAILED);
    gethostname(host, sizeof host - 1);
    fprintf(stderr, "megalith launch: error: %s%s cannot be started on %s: %s%s\n", mark, words[0], host, strerror(why),
            why == ENOEXEC ? "; a script needs a first line such as #!/bin/sh, a program must be built for this machine"
                           : "");
    return why == ENOENT ? LAUNCH_NOT_FOUND : LAUNCH_NOT_STARTED;
}
