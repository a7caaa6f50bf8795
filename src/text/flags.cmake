# Instruction sets of single files; encoder.c picks between them at run time.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set_source_files_properties(${CMAKE_SOURCE_DIR}/src/text/encode_avx2.c PROPERTIES COMPILE_OPTIONS "-mavx2;-mbmi;-mbmi2")
endif()
