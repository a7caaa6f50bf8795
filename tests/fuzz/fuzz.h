/* Shared by the fuzzers. Each fuzz_NAME.c defines LLVMFuzzerTestOneInput. They are built with clang's libFuzzer and the
 * address and undefined-behaviour sanitizers (preset `fuzz`). */
#ifndef MEGALITH_TESTS_FUZZ_H
#define MEGALITH_TESTS_FUZZ_H

#include "megalith/file.h"
#include "megalith/memory.h"
#include "megalith/status.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Heap in use from now on may not go beyond 2 * size + 64 MiB at any moment; else the fuzzer stops with a trace. */
void fuzz_watch(size_t size);
/* A path in this process's own folder, removed at its end. Borrowed; name is a constant. */
const char *fuzz_path(const char *name);
void fuzz_write(const char *path, const void *bytes, size_t n);
/* Stops with a trace, saying what should have held. */
void fuzz_require(int holds, const char *what);
/* An error must come with a message. */
void fuzz_answer(mega_status st);

#endif
