# Instruction sets of single files; encoder.c picks between them at run time.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(files ${CMAKE_SOURCE_DIR}/src/text)
    set_source_files_properties(${files}/encode_avx2.c PROPERTIES COMPILE_OPTIONS "-mavx2;-mbmi;-mbmi2")
    set_source_files_properties(${files}/encode_avx512.c PROPERTIES COMPILE_OPTIONS
        "-mavx2;-mbmi;-mbmi2;-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq")
endif()
