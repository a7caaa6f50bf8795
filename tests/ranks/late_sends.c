/* A transport that sends late: with MEGA_TEST_LATE_SENDS=N in the environment, a message leaves only after its sender
 * has tested N times whether the send is complete. Messages of one tag to one rank keep their order. Real transports
 * copy short messages at once, so writing to a send buffer too soon goes unnoticed; here the receiver gets the
 * overwritten data. Linked into programs of ranks_*.c, where these functions replace MPI's. */
#if defined(MEGA_HAVE_MPI)
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };

static struct {
    MPI_Request request;
    int to, tag;
    int asks_left; /* number of tests left before the message leaves; 0: it has left */
} late[MOST];      /* in the order in which the sends were started */
static int num_late;

static int asks_before_send(void)
{
    static int asks = -1;
    if (asks < 0) asks = getenv("MEGA_TEST_LATE_SENDS") != NULL ? atoi(getenv("MEGA_TEST_LATE_SENDS")) : 0;
    return asks;
}

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    if (asks_before_send() == 0) return PMPI_Isend(data, count, type, to, tag, comm, request);
    if (num_late == MOST) {
        fprintf(stderr, "late sends: more than %d under way\n", MOST);
        PMPI_Abort(MPI_COMM_WORLD, 1);
    }
    const int code = PMPI_Send_init(data, count, type, to, tag, comm, request);
    late[num_late].request = *request;
    late[num_late].to = to;
    late[num_late].tag = tag;
    late[num_late++].asks_left = asks_before_send();
    return code;
}

/* Sends message i, after the earlier messages with its tag and rank that have not left yet. */
static int leave(int i)
{
    int code = MPI_SUCCESS;
    for (int k = 0; k <= i && code == MPI_SUCCESS; k++) {
        if (late[k].to != late[i].to || late[k].tag != late[i].tag || (k < i && late[k].asks_left == 0)) continue;
        late[k].asks_left = 0;
        code = PMPI_Start(&late[k].request);
    }
    return code;
}

int MPI_Test(MPI_Request *request, int *through, MPI_Status *status)
{
    int i = 0, code = MPI_SUCCESS;
    while (i < num_late && late[i].request != *request) i++;
    if (i == num_late) return PMPI_Test(request, through, status);
    *through = 0;
    if (late[i].asks_left > 0 && --late[i].asks_left == 0) code = leave(i);
    if (late[i].asks_left > 0 || code != MPI_SUCCESS) return code;
    code = PMPI_Test(request, through, status);
    if (!*through) return code;
    memmove(&late[i], &late[i + 1], (size_t)(--num_late - i) * sizeof *late);
    return PMPI_Request_free(request);
}
#else
typedef int late_sends_without_mpi; /* an empty file is not valid C */
#endif
