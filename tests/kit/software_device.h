/* For tests on the software device, whose library MEGA_CUDA_SOFTWARE names: processes of their own, because the library
 * reads its environment once, and counts of calls. */
#ifndef MEGALITH_TESTS_SOFTWARE_DEVICE_H
#define MEGALITH_TESTS_SOFTWARE_DEVICE_H

#include "kit.h"
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs it in a child whose environment has NAME=VALUE, unless name is NULL; returns the child's exit status. */
static inline int in_child(const char *name, const char *value, int (*run)(void))
{
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        if (name != NULL) setenv(name, value, 1);
        _exit(run());
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    return WEXITSTATUS(how);
}

/* Returns how often a function of the driver, NCCL or cuBLASLt was called in this process. */
static inline uint64_t calls_of(const char *function)
{
    uint64_t (*count)(const char *name);
    void *library = dlopen(MEGA_CUDA_SOFTWARE, RTLD_NOW | RTLD_NOLOAD), *symbol;
    if (library == NULL || (symbol = dlsym(library, "mega_software_cuda_count")) == NULL) abort();
    memcpy(&count, &symbol, sizeof count);
    return count(function);
}

#endif
