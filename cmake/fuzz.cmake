# Fuzzers: tests/fuzz/fuzz_*.c with libFuzzer, in a build of their own (preset `fuzz`, clang).
option(MEGA_FUZZ "build the fuzzers" OFF)
# Readers of files and of options. The kernels and the rooms above them are not linked, and so not built:
# they would take minutes under the sanitizers.
set(fuzzed_rooms ckpt families data text config yaml base)
# fuzz_options compiles only the tables and rules of options from the rooms that have them, so they may call nothing that
# needs a kernel.
set(option_files cli/options*.c cli/rules*.c cli/program.c cli/config_file.c launch/accelerate.c train/options.c
    train/rules/rules*.c train/rules/clm_*.c train/rules/classify_options.c train/rules/preset.c train/rules/derive.c
    train/find_state.c engine/settings.c engine/device_settings.c engine/rules*.c engine/json_defaults.c optim/*options*.c
    optim/*_schedule.c optim/loss_scale.c comm/options.c backend/options.c backend/cuda/models.c graph/options.c model/options.c monitor/options.c)
list(TRANSFORM option_files PREPEND ${CMAKE_SOURCE_DIR}/src/)
file(GLOB option_files CONFIGURE_DEPENDS ${option_files})
# For fuzz_test_link, which looks in every build whether these are all that it needs.
file(WRITE ${CMAKE_BINARY_DIR}/fuzz_options.list "${fuzzed_rooms}\n${option_files}\n")
if(NOT MEGA_FUZZ)
    return()
endif()
add_custom_target(fuzzers)
get_property(all_rooms GLOBAL PROPERTY MEGA_ROOMS)
foreach(room ${all_rooms})
    set_target_properties(mega_${room} PROPERTIES OPTIMIZE_DEPENDENCIES ON)
endforeach()
# Look-ups in the table of options are not instrumented: libFuzzer would be told of each comparison of each row, which takes thirty times as long.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/config/table.c ${CMAKE_SOURCE_DIR}/src/config/suggest.c
    PROPERTIES COMPILE_OPTIONS -fno-sanitize=fuzzer-no-link)
file(GLOB fuzzers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_*.c)
foreach(fuzzer ${fuzzers})
    get_filename_component(stem ${fuzzer} NAME_WE)
    add_executable(${stem} EXCLUDE_FROM_ALL ${fuzzer} ${CMAKE_SOURCE_DIR}/tests/fuzz/kit.c)
    foreach(room ${all_rooms})
        target_include_directories(${stem} PRIVATE ${CMAKE_SOURCE_DIR}/src/${room}/include)
    endforeach()
    foreach(room ${fuzzed_rooms})
        target_include_directories(${stem} PRIVATE ${CMAKE_SOURCE_DIR}/src/${room})
        target_link_libraries(${stem} PRIVATE $<TARGET_FILE:mega_${room}>)
        add_dependencies(${stem} mega_${room})
    endforeach()
    target_link_libraries(${stem} PRIVATE mega_flags mega_jansson mega_libyaml mega_zlib mega_zstd mega_pcre2 mega_utf8proc Threads::Threads m)
    target_link_options(${stem} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${stem} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
    add_dependencies(fuzzers ${stem})
endforeach()
if(TARGET fuzz_options)
    target_sources(fuzz_options PRIVATE ${option_files} ${foreign_sources_cli} ${foreign_sources_engine})
    add_dependencies(fuzz_options foreign_rows)
    target_include_directories(fuzz_options PRIVATE ${CMAKE_SOURCE_DIR}/src/cli ${CMAKE_SOURCE_DIR}/src/engine ${CMAKE_SOURCE_DIR}/src/train)
endif()
