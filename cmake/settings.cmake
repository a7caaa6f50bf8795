# Compiler flags that hold for every room.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
endif()

option(MEGA_TESTS "build the tests" ON)
option(MEGA_ASSERTS "keep MEGA_ASSERT checks" ON)
option(MEGA_FAR "a test build: the host cannot touch device memory (base/device_memory.c)" OFF)
set(MEGA_SANITIZE "" CACHE STRING "sanitizers, for example address,undefined")

# -Wno-psabi: vectors wider than the target's registers are passed only between inlined functions (backend/cpu); clang
# warns while it generates code, when a pragma in the file has no effect.
# The program, the archive and the shared library use the same objects. In gcc, -fno-semantic-interposition lets a file
# inline its own functions as if it were not for a shared library; clang does so by default.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
add_library(mega_flags INTERFACE)
target_compile_definitions(mega_flags INTERFACE _GNU_SOURCE $<$<BOOL:${MEGA_ASSERTS}>:MEGA_ASSERTS=1>)
target_compile_options(mega_flags INTERFACE
    -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla -Wno-psabi -fno-math-errno
    $<$<C_COMPILER_ID:GNU>:-fno-semantic-interposition>
    $<$<CONFIG:Release>:-O3>
    $<$<CONFIG:Release>:-fno-asynchronous-unwind-tables>
    -ffp-contract=off)
# For files without hot loops: small rather than fast. (No file has tables that only exceptions and debuggers without symbols read.)
set(MEGA_SMALL "$<$<CONFIG:Release>:-Os>")
target_link_options(mega_flags INTERFACE -Wl,--build-id=sha1) # by which ranks tell one build from another (base/build_id.c)
# Addresses in tables, of which options have many, take an eighth of the space in this form; glibc 2.36 and later read it.
include(CheckCSourceRuns)
set(CMAKE_REQUIRED_LINK_OPTIONS -Wl,-z,pack-relative-relocs)
check_c_source_runs("const char *word[] = {\"a\", \"b\"}; int main(int n, char **argv) { (void)argv; return word[n > 1] == 0; }" MEGA_PACKS_ADDRESSES)
unset(CMAKE_REQUIRED_LINK_OPTIONS)
add_library(mega_packed INTERFACE) # for the program and the library
if(MEGA_PACKS_ADDRESSES)
    target_link_options(mega_packed INTERFACE -Wl,-z,pack-relative-relocs)
endif()
# Reports of the sanitizers need only line tables. With -O1 (CMakePresets.json) the vector loops of backend/ compile in a fifth of the time
# that -O2 takes.
if(MEGA_SANITIZE)
    # (Of a target with MEGA_WATCHED the software device watches the accesses in place of a sanitizer.)
    target_compile_options(mega_flags INTERFACE $<$<NOT:$<BOOL:$<TARGET_PROPERTY:MEGA_WATCHED>>>:-fsanitize=${MEGA_SANITIZE}>
        -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
    target_link_options(mega_flags INTERFACE -fsanitize=${MEGA_SANITIZE})
endif()
find_program(MEGA_CCACHE ccache)
if(MEGA_CCACHE)
    set(CMAKE_C_COMPILER_LAUNCHER ${MEGA_CCACHE})
endif()
