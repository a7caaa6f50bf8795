# Tests are found by name: src/<room>/tests/test_*.c see their room, those under it, and those of its TESTS; tests/*/test_*.c see every room;
# tests/*/test_*.sh run the program. Exit status 77 means skipped, with the reason printed.
enable_testing()
set(MEGA_TEST_TIMEOUT 900 CACHE STRING "seconds after which a test is ended and has failed")
add_library(mega_kit STATIC ${CMAKE_SOURCE_DIR}/tests/kit/kit.c)
target_include_directories(mega_kit PUBLIC ${CMAKE_SOURCE_DIR}/tests/kit PRIVATE ${CMAKE_SOURCE_DIR}/src/base/include)
target_link_libraries(mega_kit PRIVATE mega_flags PUBLIC mega_cmocka $<LINK_ONLY:mega_base>)
get_property(all_rooms GLOBAL PROPERTY MEGA_ROOMS)

function(mega_test file label rooms)
    get_filename_component(stem ${file} NAME_WE)
    set(target ${label}_${stem})
    add_executable(${target} ${file})
    foreach(room ${rooms})
        target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src/${room}/include)
        target_link_libraries(${target} PRIVATE $<LINK_ONLY:mega_${room}>)
    endforeach()
    target_link_libraries(${target} PRIVATE mega_flags mega_kit mega_jansson)
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    list(GET rooms 0 own)
    if(MEGA_FAR AND own STREQUAL base)
        target_compile_definitions(${target} PRIVATE MEGA_FAR=1)
    endif()
    add_test(NAME ${target} COMMAND ${target})
    mega_test_properties(${target} ${label})
endfunction()

function(mega_test_properties name label)
    set_tests_properties(${name} PROPERTIES LABELS ${label} SKIP_RETURN_CODE 77 TIMEOUT ${MEGA_TEST_TIMEOUT} PROCESSORS 2 ENVIRONMENT
        "ASAN_OPTIONS=allocator_may_return_null=1;UBSAN_OPTIONS=print_stacktrace=1;MEGALITH=${CMAKE_BINARY_DIR}/megalith;MEGA_SOURCE=${CMAKE_SOURCE_DIR};MEGA_BUILD=${CMAKE_BINARY_DIR}")
endfunction()

# What takes time in these tests is in the rooms: with -O1 the tests themselves compile in half the time.
function(mega_compiles_quickly file)
    set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O1>)
endfunction()

foreach(room ${all_rooms})
    get_property(on GLOBAL PROPERTY MEGA_ROOM_ON_${room})
    file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${room}/tests/test_*.c)
    foreach(test ${tests})
        mega_test(${test} unit "${room};${on}")
        mega_compiles_quickly(${test})
        get_filename_component(stem ${test} NAME_WE)
        target_include_directories(unit_${stem} PRIVATE ${CMAKE_SOURCE_DIR}/src/${room})
    endforeach()
endforeach()
# tests/ranks/ranks_*.c are started as several ranks by scripts beside them.
file(GLOB programs CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/ranks/ranks_*.c)
foreach(program ${programs})
    get_filename_component(target ${program} NAME_WE)
    add_executable(${target} ${program})
    mega_compiles_quickly(${program})
    foreach(room ${all_rooms})
        target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src/${room}/include)
        target_link_libraries(${target} PRIVATE $<LINK_ONLY:mega_${room}>)
    endforeach()
    target_link_libraries(${target} PRIVATE mega_flags mega_kit mega_mpi)
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endforeach()
target_sources(ranks_parity PRIVATE ${CMAKE_SOURCE_DIR}/tests/ranks/late_sends.c)
# The bubble test slows down the programs of a stage: its own functions replace these two in the engine's calls.
target_link_options(ranks_bubble PRIVATE -Wl,--wrap=mega_program_forward,--wrap=mega_program_backward)
# The stages of a generation meet in the programs of theirs.
target_link_options(ranks_decode PRIVATE -Wl,--wrap=mega_program_forward)
# Tests of threads delay one of them: where it adds a document, and where it reads a piece of a file.
target_link_options(unit_test_checkpoint_damage PRIVATE -Wl,--wrap=mega_map_fetch)
target_link_options(unit_test_trainer PRIVATE -Wl,--wrap=mega_trainer_add)
foreach(kind ops parity ranks golden fault fuzz cli documentation)
    file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${kind}/test_*.c)
    foreach(test ${tests})
        mega_test(${test} ${kind} "${all_rooms}")
    endforeach()
    file(GLOB scripts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${kind}/test_*.sh)
    foreach(script ${scripts})
        get_filename_component(stem ${script} NAME_WE)
        add_test(NAME ${kind}_${stem} COMMAND bash ${script})
        mega_test_properties(${kind}_${stem} ${kind})
    endforeach()
endforeach()
# Its runs are short: the measurement of the machine's peak would take half of their time.
target_link_options(parity_test_resume_table PRIVATE -Wl,--wrap=mega_cpu_peak_measure)
# Two hosts of two cores each on one machine: if other tests run at the same time, their start exceeds its limit.
set_tests_properties(ranks_test_launch_hosts PROPERTIES RUN_SERIAL TRUE)
# These mostly wait, for limits of time and for launchers: one of them at a time runs beside those that compute (tools/check.sh).
# In MPICH's build few others run, and several of these at a time: one after the other they would be most of its time.
set(waiting ranks_test_signals ranks_test_stall ranks_test_launch_faults ranks_test_launch_own)
foreach(name ${waiting})
    if(TEST ${name})
        set_tests_properties(${name} PROPERTIES PROCESSORS 1)
        if(NOT MEGA_MPI_COMPILER MATCHES "mpich")
            set_tests_properties(${name} PROPERTIES RESOURCE_LOCK waiting)
        endif()
    endif()
endforeach()
# Without the times of an earlier run, ctest starts tests in the order in which they are listed. The longest are named here, by about how
# many seconds they take on two cores, so that no core waits for one of them at the end.
# The limit of time is to end a test that hangs: where 14 other processes compute, one of a minute takes more than a quarter of an hour.
math(EXPR long_timeout "4 * ${MEGA_TEST_TIMEOUT}")
function(mega_test_costs seconds)
    foreach(name ${ARGN})
        if(TEST ${name})
            set_tests_properties(${name} PROPERTIES COST ${seconds})
            if(seconds GREATER_EQUAL 60)
                set_tests_properties(${name} PROPERTIES TIMEOUT ${long_timeout})
            endif()
        endif()
    endforeach()
endfunction()
mega_test_costs(120 ranks_test_parity ranks_test_launch_examples ranks_test_signals cli_test_docs_c)
mega_test_costs(60 ranks_test_kinds cli_test_examples_readme ranks_test_launch_own cli_test_docs documentation_test_gpt ranks_test_checkpoint
    ops_test_kernels ranks_test_generate fault_test_faults fuzz_test_fuzz)
mega_test_costs(30 ranks_test_stall ranks_test_comm ranks_test_generate_experts cli_test_examples_c ranks_test_launch_faults cli_test_python ranks_test_pretrain cli_test_install
    ranks_test_optimizers parity_test_resume_table fault_test_large_checkpoint ranks_test_memory cli_test_families cli_test_recipes cli_test_run_clm cli_test_signals)
mega_test_costs(15 cli_test_new ranks_test_server fault_test_damage ranks_test_alike ranks_test_launch cli_test_compare_builds
    cli_test_compare_configurations cli_test_headers ranks_test_pretrain_t5 ranks_test_once cli_test_launch cli_test_pretrain cli_test_pretrain_exits ranks_test_models
    ranks_test_mistakes ranks_test_pipeline golden_test_generate_rules cli_test_mutants)
mega_test_costs(5 cli_test_accelerate cli_test_architecture cli_test_rooms cli_test_server fault_test_pretrain_killed ranks_test_late_sends
    ranks_test_bubble fault_test_disk_full unit_test_checkpoint_crash ranks_test_memory_order fault_test_preprocess_killed ranks_test_one_bit
    cli_test_options_used parity_test_resume ranks_test_sums ranks_test_pretrain_bert ranks_test_fill_mask ranks_test_tasks cli_test_formats)
