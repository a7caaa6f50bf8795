# The kernels of src/backend/cuda/ for GPUs. The program has the PTX of all, packed (images.sh).
#   build/ptx/NAME.ptx               text that any driver since 2020 compiles for its GPU: by clang, without a toolkit
#   build/cubin/NAME.sm_80.cubin     the code of one kind of GPU, by nvcc: target cubins, of two kinds spills-nvcc
#   build/cubin/NAME.sm_80.ptxas.cubin   the same of the PTX, only to see what it takes: target spills
# beside them .txt files with registers, shared memory and spills of each kernel.
file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/backend/cuda/*.cu)
list(FILTER cuda_sources EXCLUDE REGEX "_body\\.cu$") # included by others
set(cuda_include -I${CMAKE_SOURCE_DIR}/src/backend/cuda -I${CMAKE_SOURCE_DIR}/src/backend/include -I${CMAKE_SOURCE_DIR}/src/base/include)
# Contraction off, as on CPUs: a kernel says where it wants a fused multiply-add.
set(cuda_clang_flags -x cuda --cuda-gpu-arch=sm_80 --cuda-device-only -nocudainc -nocudalib -Wno-unknown-cuda-version
    -Xclang -target-feature -Xclang +ptx70 -O3 -ffp-contract=off -S)
set(cuda_nvcc_flags -cubin -O3 -fmad=false -Xptxas -v)

find_program(MEGA_CUDA_CLANG NAMES clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14)
mark_as_advanced(MEGA_CUDA_CLANG)
if(MEGA_CUDA_CLANG AND NOT DEFINED MEGA_CUDA_CLANG_WORKS)
    file(WRITE ${CMAKE_BINARY_DIR}/ptx/probe.txt "extern \"C\" __attribute__((global)) void probe(const int a) { asm volatile(\"\" ::\"r\"(a)); }\n")
    execute_process(COMMAND ${MEGA_CUDA_CLANG} ${cuda_clang_flags} -o ${CMAKE_BINARY_DIR}/ptx/probe.out ${CMAKE_BINARY_DIR}/ptx/probe.txt
        RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
    file(REMOVE ${CMAKE_BINARY_DIR}/ptx/probe.txt ${CMAKE_BINARY_DIR}/ptx/probe.out)
    if(result EQUAL 0)
        set(MEGA_CUDA_CLANG_WORKS ON CACHE INTERNAL "clang compiles for NVIDIA's GPUs")
    else()
        set(MEGA_CUDA_CLANG_WORKS OFF CACHE INTERNAL "clang compiles for NVIDIA's GPUs")
    endif()
endif()
# The builds of one kind of test have no use for images.
set(cuda_images ON)
if(NOT MEGA_CUDA_CLANG OR NOT MEGA_CUDA_CLANG_WORKS OR MEGA_FUZZ OR MEGA_FAR)
    set(cuda_images OFF)
endif()
option(MEGA_CUDA_PTX "compile the kernels for GPUs to PTX: needs clang 14 or newer with NVPTX" ${cuda_images})

# cuda_compiles(OUTPUT SOURCE RECORD command…): what the command says is kept in RECORD, and shown if it fails. The
# command may write OUTPUT.d, the list of the headers that it has read.
function(cuda_compiles output source record)
    set(reads DEPENDS ${source} ${cuda_headers})
    if("-MF" IN_LIST ARGN)
        set(reads DEPENDS ${source} DEPFILE ${output}.d)
    endif()
    add_custom_command(OUTPUT ${output} BYPRODUCTS ${record} ${reads} VERBATIM
        COMMENT "${output}"
        COMMAND sh -c "record=$1; shift; \"$@\" >\"$record\" 2>&1 || { cat \"$record\"; exit 1; }" sh ${record} ${ARGN})
endfunction()
file(GLOB cuda_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/backend/cuda/*.h ${CMAKE_SOURCE_DIR}/src/backend/cuda/*_body.cu
    ${CMAKE_SOURCE_DIR}/src/backend/include/megalith/*.h ${CMAKE_SOURCE_DIR}/src/base/include/megalith/*.h)
set(images "")
if(MEGA_CUDA_PTX)
    foreach(source ${cuda_sources})
        get_filename_component(name ${source} NAME_WE)
        set(image ${CMAKE_BINARY_DIR}/ptx/${name}.ptx)
        cuda_compiles(${image} ${source} ${CMAKE_BINARY_DIR}/ptx/${name}.txt
            ${CMAKE_C_COMPILER_LAUNCHER} ${MEGA_CUDA_CLANG} ${cuda_clang_flags} -Wall -Wextra -Werror ${cuda_include} -MD -MF ${image}.d -o ${image} ${source})
        list(APPEND images ${image})
    endforeach()
    add_custom_target(ptx ALL DEPENDS ${images})
endif()
add_executable(pack_images EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/cmake/pack_images.c)
target_link_libraries(pack_images PRIVATE mega_zstd)
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/ptx/images.c BYPRODUCTS ${CMAKE_BINARY_DIR}/ptx/images.zst
    COMMAND sh ${CMAKE_SOURCE_DIR}/cmake/images.sh ${CMAKE_BINARY_DIR}/ptx/images.c ${CMAKE_BINARY_DIR}/ptx/images.zst
        $<TARGET_FILE:pack_images> ${images}
    DEPENDS ${images} pack_images ${CMAKE_SOURCE_DIR}/cmake/images.sh COMMENT "Packing the kernels for GPUs" VERBATIM)
# The fuzzers link no kernel: a room with a generated source is built before each that stands on it (OPTIMIZE_DEPENDENCIES
# drops only others), and the kernels would be five sixths of the fuzzers' build.
if(NOT MEGA_FUZZ)
    target_sources(mega_backend PRIVATE ${CMAKE_BINARY_DIR}/ptx/images.c)
endif()

find_program(MEGA_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
find_program(MEGA_PTXAS ptxas HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
mark_as_advanced(MEGA_NVCC MEGA_PTXAS)
set(MEGA_CUDA_CHIPS "80;86;89;90" CACHE STRING "kinds of GPUs (sm_NN) for which the target cubins compiles")
set(cubins "")
set(spills "")
set(spills_nvcc "")
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/ptx ${CMAKE_BINARY_DIR}/cubin)
foreach(source ${cuda_sources})
    get_filename_component(name ${source} NAME_WE)
    foreach(chip ${MEGA_CUDA_CHIPS})
        set(cubin ${CMAKE_BINARY_DIR}/cubin/${name}.sm_${chip})
        if(MEGA_NVCC)
            cuda_compiles(${cubin}.cubin ${source} ${cubin}.nvcc.txt
                ${MEGA_NVCC} ${cuda_nvcc_flags} -arch=sm_${chip} ${cuda_include} -o ${cubin}.cubin ${source})
            list(APPEND cubins ${cubin}.cubin)
            if(chip MATCHES "^(80|90)$") # the others have as many registers
                list(APPEND spills_nvcc ${cubin}.cubin)
            endif()
        endif()
        if(MEGA_PTXAS AND MEGA_CUDA_PTX AND chip MATCHES "^(80|90)$")
            cuda_compiles(${cubin}.ptxas.cubin ${CMAKE_BINARY_DIR}/ptx/${name}.ptx ${cubin}.ptxas.txt
                ${MEGA_PTXAS} -v -arch=sm_${chip} -o ${cubin}.ptxas.cubin ${CMAKE_BINARY_DIR}/ptx/${name}.ptx)
            list(APPEND spills ${cubin}.ptxas.cubin)
        endif()
    endforeach()
endforeach()
add_custom_target(cubins DEPENDS ${cubins})
add_custom_target(spills DEPENDS ${spills})
add_custom_target(spills-nvcc DEPENDS ${spills_nvcc})

if(NOT MEGA_TESTS OR MEGA_FAR)
    return()
endif()
set(device_folder ${CMAKE_SOURCE_DIR}/tests/device)
mega_test(${device_folder}/test_kernels.c device "base;backend")
target_sources(device_test_kernels PRIVATE ${CMAKE_SOURCE_DIR}/src/backend/cuda/launch.c) # its own: fewer blocks
target_include_directories(device_test_kernels PRIVATE ${CMAKE_SOURCE_DIR}/src/backend ${CMAKE_SOURCE_DIR}/src/backend/cuda)
target_link_libraries(device_test_kernels PRIVATE ${CMAKE_DL_LIBS} m)
# On the software device that watches every access, or under a sanitizer, unless the caller names another library.
add_dependencies(device_test_kernels mega_software_cuda ${device_watched})
target_compile_definitions(device_test_kernels PRIVATE CUDA_MOST_BLOCKS=8 MEGA_CUDA_SOFTWARE="${CMAKE_BINARY_DIR}/lib${device_watched}.so")
mega_test(${device_folder}/test_gpu.c device "base;backend")
add_dependencies(device_test_gpu mega_software_cuda)
target_include_directories(device_test_gpu PRIVATE ${CMAKE_SOURCE_DIR}/src/backend/cuda)
target_link_libraries(device_test_gpu PRIVATE ${CMAKE_DL_LIBS})
target_compile_definitions(device_test_gpu PRIVATE MEGA_CUDA_SOFTWARE="${CMAKE_BINARY_DIR}/libmega_software_cuda.so")
mega_test(${device_folder}/test_products.c device "base;backend")
add_dependencies(device_test_products mega_software_cuda)
target_link_libraries(device_test_products PRIVATE ${CMAKE_DL_LIBS})
target_compile_definitions(device_test_products PRIVATE MEGA_CUDA_SOFTWARE="${CMAKE_BINARY_DIR}/libmega_software_cuda.so")
if(NOT MEGA_SANITIZE)
    mega_test(${device_folder}/test_order.c device "base;backend")
    add_dependencies(device_test_order mega_software_cuda_watched)
    target_compile_definitions(device_test_order PRIVATE MEGA_CUDA_SOFTWARE="${CMAKE_BINARY_DIR}/libmega_software_cuda_watched.so")
    target_link_libraries(device_test_order PRIVATE ${CMAKE_DL_LIBS})
endif()
get_property(all_rooms GLOBAL PROPERTY MEGA_ROOMS)
mega_test(${device_folder}/test_step.c device "${all_rooms}")
add_dependencies(device_test_step mega_software_cuda)
target_compile_definitions(device_test_step PRIVATE MEGA_CUDA_SOFTWARE="${CMAKE_BINARY_DIR}/libmega_software_cuda.so")
target_link_libraries(device_test_step PRIVATE ${CMAKE_DL_LIBS})
mega_test(${device_folder}/test_engine.c device "${all_rooms}")
add_dependencies(device_test_engine mega_software_cuda)
target_link_libraries(device_test_engine PRIVATE ${CMAKE_DL_LIBS})
target_compile_definitions(device_test_engine PRIVATE MEGA_CUDA_SOFTWARE="${CMAKE_BINARY_DIR}/libmega_software_cuda.so")
mega_test(${device_folder}/test_update.c device "base;backend;comm;graph;params;optim")
mega_test(${device_folder}/test_networks.c device "${all_rooms}")
foreach(test update networks)
    add_dependencies(device_test_${test} mega_software_cuda)
    target_compile_definitions(device_test_${test} PRIVATE MEGA_CUDA_SOFTWARE="${CMAKE_BINARY_DIR}/libmega_software_cuda.so")
endforeach()
mega_test(${device_folder}/test_ptx.c device "base")
target_include_directories(device_test_ptx PRIVATE ${CMAKE_SOURCE_DIR}/src/backend/cuda)
target_link_libraries(device_test_ptx PRIVATE ${CMAKE_DL_LIBS})
add_dependencies(device_test_ptx mega_software_cuda)
if(TARGET ptx)
    add_dependencies(device_test_ptx ptx)
endif()
target_compile_definitions(device_test_ptx PRIVATE MEGA_CUDA_PTX=$<BOOL:${MEGA_CUDA_PTX}>
    MEGA_CUDA_SOFTWARE="${CMAKE_BINARY_DIR}/libmega_software_cuda.so")
set(scripts models ranks calls failures plan measure)
if(NOT MEGA_SANITIZE) # these are of kernels for GPUs, or of the watch
    list(APPEND scripts images omitted library bits changes train check_gpu)
endif()
foreach(script ${scripts})
    add_test(NAME device_test_${script} COMMAND bash ${device_folder}/test_${script}.sh)
    mega_test_properties(device_test_${script} device)
endforeach()
mega_test_costs(60 device_test_images device_test_kernels device_test_omitted)
