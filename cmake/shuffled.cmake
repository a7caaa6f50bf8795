# The tests of threaded code, once more with pieces of work in a shuffled order. The programs use the same
# objects and libraries, linked with another base/thread_team.c, so that nothing else is compiled twice. Target `shuffled` builds
# them; `ctest -C shuffled -R ^shuffled_` runs them, and no other run of ctest does (make check-shuffle).
add_library(mega_team_shuffled OBJECT EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/src/base/thread_team.c)
target_include_directories(mega_team_shuffled PRIVATE ${CMAKE_SOURCE_DIR}/src/base ${CMAKE_SOURCE_DIR}/src/base/include)
target_compile_definitions(mega_team_shuffled PRIVATE MEGA_SHUFFLE_CLAIMS=1)
target_link_libraries(mega_team_shuffled PRIVATE mega_flags)
add_custom_target(shuffled)

# The linker takes no thread_team.o from libmega_base, because the program already has all of its symbols.
function(mega_shuffled target)
    add_executable(shuffled_${target} EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${target}> $<TARGET_OBJECTS:mega_team_shuffled>)
    get_target_property(libraries ${target} LINK_LIBRARIES)
    get_target_property(options ${target} LINK_OPTIONS)
    target_link_libraries(shuffled_${target} PRIVATE ${libraries})
    if(options)
        target_link_options(shuffled_${target} PRIVATE ${options})
    endif()
    set_target_properties(shuffled_${target} PROPERTIES LINKER_LANGUAGE C OUTPUT_NAME ${target}
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/shuffled)
    add_dependencies(shuffled shuffled_${target})
endfunction()

function(mega_shuffled_test name)
    add_test(NAME shuffled_${name} COMMAND ${ARGN} CONFIGURATIONS shuffled)
    mega_test_properties(shuffled_${name} shuffled)
    set_property(TEST shuffled_${name} APPEND PROPERTY ENVIRONMENT
        "MEGALITH=${CMAKE_BINARY_DIR}/shuffled/megalith;MEGA_TEST_SHUFFLED=1")
    get_test_property(${name} COST cost)
    if(cost)
        set_tests_properties(shuffled_${name} PROPERTIES COST ${cost})
    endif()
endfunction()

mega_shuffled(megalith)
mega_shuffled_test(parity_test_resume bash ${CMAKE_SOURCE_DIR}/tests/parity/test_resume.sh)
foreach(tests unit:src/base/tests unit:src/backend/tests unit:src/text/tests unit:src/graph/tests unit:src/optim/tests
        unit:src/layers/tests unit:src/ckpt/tests unit:src/data/tests unit:src/model/tests unit:src/engine/tests unit:src/train/tests unit:src/infer/tests
        ops:tests/ops golden:tests/golden parity:tests/parity)
    string(REPLACE ":" ";" tests ${tests})
    list(GET tests 0 label)
    list(GET tests 1 folder)
    file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/test_*.c)
    foreach(file ${files})
        get_filename_component(stem ${file} NAME_WE)
        # These take long and share no work among threads, or (crashes) stop a save at each of its calls, whichever thread makes it.
        if(stem MATCHES "^test_(checkpoint_crash|memory_offsets|json_cursor|lock)$")
            continue()
        endif()
        # Without a team there are no claims: tests that make none, by themselves or with an engine, compute the same.
        file(STRINGS ${file} makes_team LIMIT_COUNT 1 REGEX
            "mega_team_|_threads|workers|mega_engine_|mega_generator|mega_pretrained|kernel_check_body|include \"(api_model|gpt_run|gpt_engine|engine_[a-z]*|model_features|held|json_kit)\\.h\"")
        if(NOT makes_team)
            continue()
        endif()
        mega_shuffled(${label}_${stem})
        mega_shuffled_test(${label}_${stem} shuffled_${label}_${stem})
    endforeach()
endforeach()
