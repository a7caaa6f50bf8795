/* Memory for the order of samples that the ranks of a host share: an unnamed file, which the others open through /proc.
 * The rank that creates it appends blocks and finally a table of them, preceded by a random number: in the reader's PID
 * namespace the same process id may be another process. The memory is freed with the processes that map it. */
#include "data_impl.h"
#include "megalith/memory.h"
#include "megalith/threads.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct share_entry {
    uint64_t key;
    int64_t at, bytes;
} share_entry;

struct mega_gpt_share {
    int fd;            /* -1: the system has no such files; blocks are then private */
    bool is_mine;      /* created by this process, and may grow */
    int64_t size;      /* of the file */
    mega_buffer table; /* of entries */
};

static share_entry *share_entries(const mega_gpt_share *s, size_t *count)
{
    *count = s->table.size / sizeof(share_entry);
    return (share_entry *)(void *)s->table.data;
}

mega_status mega_gpt_share_create(mega_gpt_share **out)
{
    mega_gpt_share *s = mega_calloc(1, sizeof *s);
    if (s == NULL) return MEGA_NO_MEMORY("data set", "the memory shared by the ranks of a host");
    s->fd = memfd_create("megalith-order", MFD_CLOEXEC);
    s->is_mine = true;
    *out = s;
    return MEGA_OK;
}

void mega_gpt_share_destroy(mega_gpt_share *share)
{
    if (share == NULL) return;
    if (share->fd >= 0) close(share->fd);
    mega_buffer_fini(&share->table);
    mega_free(share);
}

/* ---- offers between ranks ---- */

void mega_gpt_share_offer(mega_gpt_share *share, mega_gpt_offer *out)
{
    size_t count;
    *out = (mega_gpt_offer){.fd = -1};
    const share_entry *entry = share_entries(share, &count);
    const int64_t nonce = ((int64_t)getpid() << 32) ^ (int64_t)(mega_time_now() * 1e6) ^ 1;
    const ssize_t bytes = (ssize_t)(count * sizeof *entry);
    if (share->fd < 0 || count == 0) return;
    if (pwrite(share->fd, &nonce, sizeof nonce, share->size) != (ssize_t)sizeof nonce ||
        pwrite(share->fd, entry, (size_t)bytes, share->size + (int64_t)sizeof nonce) != bytes)
        return;
    *out = (mega_gpt_offer){.pid = getpid(),
                            .fd = share->fd,
                            .nonce = nonce,
                            .table = share->size,
                            .blocks = (int64_t)count,
                            .bytes = share->size + (int64_t)sizeof nonce + bytes};
}

static bool read_table(mega_gpt_share *s, const mega_gpt_offer *offer)
{
    int64_t nonce = 0;
    const size_t bytes = (size_t)offer->blocks * sizeof(share_entry);
    if (lseek(s->fd, 0, SEEK_END) != offer->bytes || !mega_buffer_reserve(&s->table, bytes)) return false;
    s->size = offer->bytes;
    s->table.size = bytes;
    return pread(s->fd, &nonce, sizeof nonce, offer->table) == (ssize_t)sizeof nonce && nonce == offer->nonce &&
           pread(s->fd, s->table.data, bytes, offer->table + (int64_t)sizeof nonce) == (ssize_t)bytes;
}

mega_status mega_gpt_share_open(const mega_gpt_offer *offer, mega_gpt_share **out)
{
    char path[64];
    *out = NULL;
    if (offer->fd < 0) return MEGA_OK;
    mega_gpt_share *s = mega_calloc(1, sizeof *s);
    if (s == NULL) return MEGA_NO_MEMORY("data set", "the memory shared by the ranks of a host");
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)offer->pid, (long long)offer->fd);
    s->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (s->fd >= 0 && read_table(s, offer)) *out = s;
    else
        mega_gpt_share_destroy(s);
    return MEGA_OK;
}

/* ---- blocks ---- */

/* Allocates the pages at once, so that a lack of memory shows here and not while the block is written. */
static bool share_append(mega_gpt_share *s, mega_gpt_block *out, uint64_t key, size_t bytes)
{
    const share_entry e = {key, s->size, (int64_t)bytes};
    const int64_t after = e.at + (int64_t)mega_region_round(bytes);
    if (!mega_buffer_reserve(&s->table, sizeof e)) return false;
    if (fallocate(s->fd, 0, e.at, after - e.at) != 0 && (errno == ENOSPC || ftruncate(s->fd, after) != 0)) return false;
    out->data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, e.at);
    if (out->data == MAP_FAILED) return false;
    out->bytes = bytes;
    s->size = after;
    return mega_buffer_append(&s->table, &e, sizeof e);
}

mega_status mega_gpt_block_make(mega_gpt_share *share, uint64_t key, size_t bytes, const char *what,
                                mega_gpt_block *out)
{
    if (share != NULL && share->fd >= 0 && share->is_mine && share_append(share, out, key, bytes)) return MEGA_OK;
    *out = (mega_gpt_block){.bytes = bytes};
    return mega_pages_alloc(&out->data, bytes, what);
}

static const share_entry *find_entry(const mega_gpt_share *share, uint64_t key)
{
    size_t count = 0;
    const share_entry *entry = share != NULL ? share_entries(share, &count) : NULL;
    for (size_t i = 0; i < count; i++)
        if (entry[i].key == key) return &entry[i];
    return NULL;
}

bool mega_gpt_block_find(const mega_gpt_share *share, uint64_t key, size_t bytes, mega_gpt_block *out)
{
    const share_entry *e = find_entry(share, key);
    if (e == NULL || e->bytes != (int64_t)bytes || e->at < 0 || e->at > share->size - e->bytes) return false;
    void *data = mmap(NULL, bytes, PROT_READ, MAP_SHARED, share->fd, e->at);
    if (data == MAP_FAILED) return false;
    *out = (mega_gpt_block){data, bytes};
    return true;
}

void mega_gpt_block_fini(mega_gpt_block *block)
{
    mega_pages_free(block->data, block->bytes);
    *block = (mega_gpt_block){0};
}

void mega_gpt_share_drop(mega_gpt_share *share, uint64_t key)
{
    const share_entry *last = find_entry(share, key);
    if (last == NULL || !share->is_mine) return;
    share->size = last->at;
    share->table.size -= sizeof *last;
    if (ftruncate(share->fd, share->size) != 0)
        share->size = last->at + (int64_t)mega_region_round((size_t)last->bytes);
}
