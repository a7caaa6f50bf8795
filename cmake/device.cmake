# The software device (tests/device/): kernels and the driver of a GPU in software, for tests alone.
set(device_folder ${CMAKE_SOURCE_DIR}/tests/device)
set(cuda_folder ${CMAKE_SOURCE_DIR}/src/backend/cuda)

# Declarations are compared with those of a toolkit, where there is one. A cross compiler's linker is not needed: the
# functions are named, and never called.
find_program(MEGA_NVCC nvcc HINTS ENV CUDA_HOME PATH_SUFFIXES bin)
mark_as_advanced(MEGA_NVCC)
set(toolkit "")
if(MEGA_NVCC)
    get_filename_component(toolkit ${MEGA_NVCC} REALPATH)
    get_filename_component(toolkit ${toolkit}/../.. ABSOLUTE)
endif()
find_path(MEGA_CUDA_INCLUDE cuda.h HINTS ENV CUDA_HOME HINTS ${toolkit} PATH_SUFFIXES include targets/x86_64-linux/include)
mark_as_advanced(MEGA_CUDA_INCLUDE)
add_executable(device_test_declarations ${device_folder}/test_declarations.c)
target_include_directories(device_test_declarations PRIVATE ${cuda_folder})
target_link_libraries(device_test_declarations PRIVATE mega_flags)
if(MEGA_CUDA_INCLUDE)
    target_compile_definitions(device_test_declarations PRIVATE MEGA_CUDA_HEADER=1)
    target_include_directories(device_test_declarations SYSTEM PRIVATE ${MEGA_CUDA_INCLUDE})
    if(EXISTS ${MEGA_CUDA_INCLUDE}/nccl.h)
        target_compile_definitions(device_test_declarations PRIVATE MEGA_NCCL_HEADER=1)
    endif()
    if(EXISTS ${MEGA_CUDA_INCLUDE}/cublasLt.h)
        target_compile_definitions(device_test_declarations PRIVATE MEGA_CUBLASLT_HEADER=1)
    endif()
    target_link_options(device_test_declarations PRIVATE -Wl,--unresolved-symbols=ignore-all)
endif()
set_target_properties(device_test_declarations PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_test(NAME device_test_declarations COMMAND device_test_declarations)
mega_test_properties(device_test_declarations device)

if(MEGA_FAR OR MEGA_FUZZ)
    return()
endif()

# On a processor that has fused multiply-adds, kernels and tiles of products use them: a call of fmaf for each takes many
# times as long. Nothing is contracted, so that the bits are the same.
include(CheckCSourceRuns)
check_c_source_runs("int main(void) { return !(__builtin_cpu_supports(\"avx2\") && __builtin_cpu_supports(\"fma\")); }" MEGA_DEVICE_FMA)
set(device_speed $<$<BOOL:${MEGA_DEVICE_FMA}>:-mavx2> $<$<BOOL:${MEGA_DEVICE_FMA}>:-mfma>)

# Kernels are C for a C compiler. Those of the tests are compiled twice: plain, and with the calls that the watch answers.
set(device_flags -ffp-contract=off -fno-strict-aliasing -Wno-unknown-pragmas)
function(mega_device_kernels target watched)
    add_library(${target} OBJECT EXCLUDE_FROM_ALL ${ARGN})
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE C)
    target_include_directories(${target} PRIVATE ${cuda_folder} ${device_folder} ${CMAKE_SOURCE_DIR}/src/backend/include ${CMAKE_SOURCE_DIR}/src/base/include)
    target_link_libraries(${target} PRIVATE mega_flags)
    target_compile_options(${target} PRIVATE ${device_flags} ${device_speed})
    if(watched)
        set_target_properties(${target} PROPERTIES MEGA_WATCHED ON)
        target_compile_options(${target} PRIVATE -fsanitize=thread -g1)
    endif()
endfunction()
function(mega_device_library target)
    add_library(${target} OBJECT EXCLUDE_FROM_ALL ${ARGN})
    target_include_directories(${target} PRIVATE ${cuda_folder} ${device_folder})
    target_link_libraries(${target} PRIVATE mega_flags)
endfunction()
mega_device_kernels(device_kernels_tests OFF ${device_folder}/kernels.cu)
mega_device_kernels(device_kernels_tests_watched ON ${device_folder}/kernels.cu)
mega_device_library(device_runner ${device_folder}/fiber.c ${device_folder}/runner.c ${device_folder}/block.c
    ${device_folder}/warp.c)
target_compile_options(device_runner PRIVATE ${device_speed})
mega_device_library(device_watch ${device_folder}/watch.c)
mega_device_library(device_no_watch ${device_folder}/watch_none.c)
file(GLOB driver_files CONFIGURE_DEPENDS ${device_folder}/software*.c)
mega_device_library(device_driver ${driver_files})
mega_device_library(device_driver_exits ${driver_files}) # of the libraries: a report of the watch becomes an exit status
target_compile_definitions(device_driver_exits PRIVATE SOFTWARE_EXITS=1)

# The libraries that take the place of libcuda.so.1: MEGA_CUDA_LIBRARY=build/libmega_software_cuda.so. All kernels of the
# backend are in them without being listed; *_body.cu are included by others.
file(GLOB kernel_files CONFIGURE_DEPENDS ${cuda_folder}/*.cu ${cuda_folder}/*/*.cu)
list(FILTER kernel_files EXCLUDE REGEX "_body\\.cu$")
function(mega_software_library name watch watched)
    mega_device_kernels(${name}_kernels ${watched} ${kernel_files} ${device_folder}/kernels.cu)
    add_library(${name} SHARED $<TARGET_OBJECTS:device_runner> $<TARGET_OBJECTS:${watch}> $<TARGET_OBJECTS:device_driver_exits>
        $<TARGET_OBJECTS:${name}_kernels>)
    set_target_properties(${name} PROPERTIES LINKER_LANGUAGE C LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
    target_link_libraries(${name} PRIVATE mega_flags Threads::Threads ${CMAKE_DL_LIBS} m rt)
    target_link_options(${name} PRIVATE -Wl,--version-script=${device_folder}/exports.map -Wl,-z,defs)
    set_target_properties(${name} PROPERTIES LINK_DEPENDS ${device_folder}/exports.map)
endfunction()
mega_software_library(mega_software_cuda device_no_watch OFF)
set(device_watched mega_software_cuda)
if(NOT MEGA_SANITIZE) # which looks at the kernels in place of the watch
    set(device_watched mega_software_cuda_watched)
    mega_software_library(mega_software_cuda_watched device_watch ON)
endif()
add_custom_target(software-device DEPENDS mega_software_cuda ${device_watched})

# The first of them by another compiler, whose kernels must compute the same bits: test_bits.sh.
if(CMAKE_C_COMPILER_ID STREQUAL GNU)
    find_program(MEGA_DEVICE_OTHER NAMES clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14)
else()
    find_program(MEGA_DEVICE_OTHER NAMES gcc)
endif()
mark_as_advanced(MEGA_DEVICE_OTHER)
if(MEGA_DEVICE_OTHER)
    set(other ${CMAKE_BINARY_DIR}/libmega_software_cuda_other.so)
    file(GLOB_RECURSE other_reads CONFIGURE_DEPENDS ${cuda_folder}/*.cu ${cuda_folder}/*.h ${device_folder}/*.h)
    set(other_files ${device_folder}/fiber.c ${device_folder}/runner.c ${device_folder}/block.c ${device_folder}/warp.c
        ${device_folder}/watch_none.c ${driver_files} ${kernel_files} ${device_folder}/kernels.cu)
    add_custom_command(OUTPUT ${other} DEPENDS ${other_files} ${other_reads} VERBATIM COMMENT "${other}"
        COMMAND ${MEGA_DEVICE_OTHER} -std=gnu17 -O2 -fPIC -shared -w -fno-math-errno -ffp-contract=off ${device_flags} ${device_speed}
            -D_GNU_SOURCE -DSOFTWARE_EXITS=1 -I${cuda_folder} -I${device_folder} -I${CMAKE_SOURCE_DIR}/src/backend/include
            -I${CMAKE_SOURCE_DIR}/src/base/include -o ${other} -x c ${other_files} -x none
            -Wl,--version-script=${device_folder}/exports.map -Wl,-z,defs -pthread -ldl -lm -lrt)
    add_custom_target(software-device-other DEPENDS ${other})
endif()

# mega_device_test(NAME objects…): test_NAME.c with these.
function(mega_device_test name)
    mega_test(${device_folder}/${name}.c device "base")
    target_include_directories(device_${name} PRIVATE ${cuda_folder} ${device_folder})
    foreach(objects ${ARGN})
        target_sources(device_${name} PRIVATE $<TARGET_OBJECTS:${objects}>)
    endforeach()
    target_link_libraries(device_${name} PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m rt)
endfunction()
mega_device_test(test_runner device_runner device_kernels_tests)
mega_device_test(test_watch device_runner device_kernels_tests_watched device_watch)
mega_device_test(test_driver device_runner device_kernels_tests_watched device_watch device_driver)
mega_device_test(test_streams device_runner device_kernels_tests_watched device_watch device_driver)
mega_device_test(test_cublaslt device_runner device_kernels_tests_watched device_watch device_driver)
mega_device_test(test_nccl device_runner device_kernels_tests_watched device_watch device_driver)
# The same with the fibers of processors that have no switch of their own.
mega_device_library(device_fiber_any ${device_folder}/fiber.c)
target_compile_definitions(device_fiber_any PRIVATE MEGA_FIBER_UCONTEXT=1)
add_executable(device_test_ucontext ${device_folder}/test_runner.c ${device_folder}/runner.c ${device_folder}/block.c ${device_folder}/warp.c
    $<TARGET_OBJECTS:device_fiber_any> $<TARGET_OBJECTS:device_kernels_tests>)
target_include_directories(device_test_ucontext PRIVATE ${cuda_folder} ${device_folder} ${CMAKE_SOURCE_DIR}/src/base/include)
target_link_libraries(device_test_ucontext PRIVATE mega_flags mega_kit m)
set_target_properties(device_test_ucontext PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_test(NAME device_test_ucontext COMMAND device_test_ucontext)
mega_test_properties(device_test_ucontext device)
