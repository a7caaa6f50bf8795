/* Loaded in front of the C library by tests/fault/test_faults.sh: makes the n-th call of one kind fail, as a full disk,
 * a broken one or a machine without memory would.
 *
 *   FAULT_OP     allocation open mkdir write short_write fsync rename unlink close mmap ftruncate read pwrite
 *   FAULT_AT     which call of that kind fails, counted from 1
 *   FAULT_ERRNO  what it says (a number); ENOSPC when absent
 *   FAULT_COUNT  a file that gets the number of such calls when the program ends
 *   FAULT_LOG    a file that gets one line when it happens
 *   FAULT_PATH   open: only files whose path holds this count
 *   FAULT_RANK   in this rank of an MPI launcher alone
 *
 * Only calls made by the program itself or by the JSON library count: what the loader and the C library do on their
 * own is not ours to recover from. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALLER __builtin_return_address(0)
enum { MAX_RANGES = 4 };

typedef struct ranges {
    uintptr_t begin[MAX_RANGES], end[MAX_RANGES];
    int count;
} ranges;

static ranges ours;
static const char *fault_op, *fault_log, *fault_path;
static long fault_at;
static int fault_errno;
static atomic_long calls;

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);

static int add_object(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)size;
    ranges *r = user;
    const int is_program = info->dlpi_name == NULL || info->dlpi_name[0] == '\0';
    if (!is_program && strstr(info->dlpi_name, "libjansson") == NULL) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || (p->p_flags & PF_X) == 0 || r->count == MAX_RANGES) continue;
        r->begin[r->count] = (uintptr_t)info->dlpi_addr + p->p_vaddr;
        r->end[r->count++] = (uintptr_t)info->dlpi_addr + p->p_vaddr + p->p_memsz;
    }
    return 0;
}

static int is_chosen_rank(void)
{
    const char *chosen = getenv("FAULT_RANK"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (rank == NULL) rank = getenv("PMI_RANK");
    return chosen == NULL || (rank != NULL && strcmp(chosen, rank) == 0);
}

__attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("FAULT_AT"), *error = getenv("FAULT_ERRNO");
    if (at == NULL || !is_chosen_rank()) return;
    dl_iterate_phdr(add_object, &ours);
    fault_log = getenv("FAULT_LOG");
    fault_errno = error != NULL ? atoi(error) : ENOSPC;
    fault_at = atol(at);
    fault_path = getenv("FAULT_PATH");
    fault_op = getenv("FAULT_OP");
}

__attribute__((destructor)) static void end(void)
{
    char line[32];
    const char *path = getenv("FAULT_COUNT");
    if (path == NULL || fault_op == NULL) return;
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    const int n = snprintf(line, sizeof line, "%ld\n", atomic_load(&calls));
    if (fd < 0) return;
    syscall(SYS_write, fd, line, (size_t)n);
    syscall(SYS_close, fd);
}

/* True once: at the call that has to fail. */
static int is_due(const char *op, const void *caller)
{
    if (fault_op == NULL || strcmp(op, fault_op) != 0) return 0;
    int is_ours = 0;
    for (int i = 0; i < ours.count; i++) {
        is_ours |= (uintptr_t)caller >= ours.begin[i] && (uintptr_t)caller < ours.end[i];
    }
    if (!is_ours || atomic_fetch_add(&calls, 1) + 1 != fault_at) return 0;
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, fault_log, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd >= 0) {
        syscall(SYS_write, fd, "failed\n", 7);
        syscall(SYS_close, fd);
    }
    errno = fault_errno;
    return 1;
}

void *malloc(size_t bytes)
{
    return is_due("allocation", CALLER) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return is_due("allocation", CALLER) ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes)
{
    return is_due("allocation", CALLER) ? NULL : __libc_realloc(block, bytes);
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const int mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(args, int) : 0;
    va_end(args);
    const int counts = fault_path == NULL || strstr(path, fault_path) != NULL;
    return counts && is_due("open", CALLER) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int mkdir(const char *path, mode_t mode)
{
    return is_due("mkdir", CALLER) ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

/* A short write takes a part and says so; the rest must follow. */
ssize_t write(int fd, const void *bytes, size_t n)
{
    if (fd > 2 && is_due("write", CALLER)) return -1;
    if (fd > 2 && n > 1 && is_due("short_write", CALLER)) n /= 2;
    return syscall(SYS_write, fd, bytes, n);
}

ssize_t read(int fd, void *bytes, size_t n)
{
    return is_due("read", CALLER) ? -1 : syscall(SYS_read, fd, bytes, n);
}

int fsync(int fd)
{
    return is_due("fsync", CALLER) ? -1 : (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    return is_due("rename", CALLER) ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    return is_due("rename", CALLER) ? -1 : (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

int unlink(const char *path)
{
    return is_due("unlink", CALLER) ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

/* As Linux does it: the descriptor is gone even when close says no. */
int close(int fd)
{
    const int due = is_due("close", CALLER);
    const int rc = (int)syscall(SYS_close, fd);
    if (due) errno = fault_errno;
    return due ? -1 : rc;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (is_due("mmap", CALLER)) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    return is_due("pwrite", CALLER) ? -1 : (ssize_t)syscall(SYS_pwrite64, fd, bytes, n, at);
}

int ftruncate(int fd, off_t size)
{
    return is_due("ftruncate", CALLER) ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}
