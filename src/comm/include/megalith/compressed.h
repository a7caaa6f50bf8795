/* The mean of tensors over ranks, compressed to one bit an element with error feedback: the exchange of 1-bit Adam
 * (Tang et al. 2021, arXiv 2102.02888), as DeepSpeed makes it. For each tensor, with D ranks:
 *
 *   each rank:  e += x;  s = |e|_2 / sqrt(number of elements);  sends the signs of e (that of 0 is +) and s;  e -= s
 *   sign(e) rank r, for chunk r of the tensor:  f += mean of s sign(e) over the ranks;  t = |f|_2 / sqrt(elements of
 *   the chunk);
 *               sends the signs of f and t to all;  f -= t sign(f)
 *   x becomes t sign(f), the same on all ranks
 *
 * e and f are what compression has lost so far. Chunks have mega_compressed_chunk elements, the last ones fewer;
 * padding has no part in any number. A rank sends about 1/32 of the bytes of a sum of F32 in each of the two
 * exchanges. */
#ifndef MEGALITH_COMPRESSED_H
#define MEGALITH_COMPRESSED_H

#include "megalith/comm.h"
#include "megalith/threads.h"

typedef struct mega_compressed {
    void *data;         /* x [count] */
    void *worker_error; /* e [count] */
    void *server_error; /* f, of this rank's chunk */
    int64_t count;
} mega_compressed;

/* Elements of chunk 0: chunk r begins r times as many elements into the tensor. A multiple of 8. */
int64_t mega_compressed_chunk(int64_t count, int ranks);
/* Elements of chunk `rank`, which may be 0. */
int64_t mega_compressed_own(int64_t count, int ranks, int rank);
/* Bytes of scratch for tensors with these counts, and bytes that a rank sends. */
size_t mega_compressed_scratch(const mega_compressed *list, int tensors, int ranks);
double mega_compressed_sent(const mega_compressed *list, int tensors, int ranks);
/* Collective. dtype is F32 or F64. team may be NULL. In a group of one nothing changes. scratch is aligned to 64, and
 * not used for tensors of a device, which are exchanged through host memory. */
MEGA_CHECK_RESULT mega_status mega_comm_compressed_mean(mega_comm *comm, const char *name, const mega_compressed *list,
                                                        int tensors, mega_dtype dtype, mega_team *team, void *scratch);

#endif
