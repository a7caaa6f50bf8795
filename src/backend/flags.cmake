# Instruction sets of single files; run-time dispatch picks between them (cpu/bodies.c). Contraction to fused
# multiply-adds is for these files alone. gcc's -O3 would copy the longest functions, the products of attention, for an
# argument that some calls give as a constant; each copy saves one branch for each tile of sums.
set(common -ffp-contract=fast -fno-trapping-math $<$<C_COMPILER_ID:GNU>:-fno-ipa-cp-clone>)
set(files ${CMAKE_SOURCE_DIR}/src/backend/cpu)
# Processors without AVX2 are rare: there the kernels are small rather than fast.
set_source_files_properties(${files}/isa_portable.c PROPERTIES COMPILE_OPTIONS "${common};${MEGA_SMALL}")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set_source_files_properties(${files}/isa_avx2.c PROPERTIES COMPILE_OPTIONS "${common};-mavx2;-mfma;-mf16c;-mbmi2")
    set(avx512 "${common};-mavx2;-mfma;-mf16c;-mbmi2;-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mprefer-vector-width=512")
    set_source_files_properties(${files}/isa_avx512.c PROPERTIES COMPILE_OPTIONS "${avx512}")
    set_source_files_properties(${files}/isa_avx512_rounding.c ${files}/isa_avx512_bf16.c
        ${files}/attention/attention_dots.c PROPERTIES COMPILE_OPTIONS "${avx512};-mavx512bf16")
    # No contraction: these give the bits of normal_portable.c.
    set_source_files_properties(${files}/normal_avx2.c PROPERTIES COMPILE_OPTIONS "-ffp-contract=off;-mavx2;-mfma;-mf16c;-mbmi2")
    set_source_files_properties(${files}/normal_avx512.c PROPERTIES COMPILE_OPTIONS "${avx512};-ffp-contract=off")
    set_source_files_properties(${files}/isa_amx.c ${files}/attention/attention_amx.c PROPERTIES COMPILE_OPTIONS
        "${avx512};-mavx512bf16;-mamx-tile;-mamx-bf16")
endif()
# Kernels have one signature, and so have the parts of their work: one may need no queue, or no thread's number. (The
# bodies of instruction sets are not among them.)
file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/backend/plain/*.c ${files}/*.c ${files}/gemm/*.c)
list(FILTER kernels EXCLUDE REGEX "_body\\.c$|/isa_|/normal_")
set_property(SOURCE ${kernels} APPEND PROPERTY COMPILE_OPTIONS -Wno-unused-parameter)
