# mega_room(NAME ON lower rooms… LIBS libraries… TESTS rooms…): one static library from src/NAME/*.c (and two levels of folders below).
# Public headers are src/NAME/include/megalith/*.h; only the rooms named in ON are on the include path.
# TESTS: rooms that its unit tests use besides, as its users do; the room itself does not see them.
function(mega_room name)
    cmake_parse_arguments(R "" "" "ON;LIBS;TESTS" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.c ${CMAKE_SOURCE_DIR}/src/${name}/*/*.c
        ${CMAKE_SOURCE_DIR}/src/${name}/*/*/*.c)
    list(FILTER sources EXCLUDE REGEX "/tests/")
    list(FILTER sources EXCLUDE REGEX "_body\\.c$")
    list(FILTER sources EXCLUDE REGEX "/main\\.c$") # of the program, mega_program
    if(NOT sources)
        set(sources ${CMAKE_SOURCE_DIR}/cmake/empty.c)
    endif()
    add_library(mega_${name} STATIC ${sources})
    target_include_directories(mega_${name} PRIVATE ${CMAKE_SOURCE_DIR}/src/${name} PUBLIC ${CMAKE_SOURCE_DIR}/src/${name}/include)
    set(rooms ${R_ON})
    list(TRANSFORM rooms PREPEND mega_)
    # PRIVATE include paths and link-only dependencies: a room above does not inherit what this room sees.
    target_link_libraries(mega_${name} PRIVATE mega_flags ${R_LIBS})
    if(MEGA_FAR AND name STREQUAL base) # no other room knows, so that all else comes from the compiler's cache
        target_compile_definitions(mega_${name} PRIVATE MEGA_FAR=1)
    endif()
    foreach(room ${R_ON})
        target_include_directories(mega_${name} PRIVATE ${CMAKE_SOURCE_DIR}/src/${room}/include)
        target_link_libraries(mega_${name} PUBLIC $<LINK_ONLY:mega_${room}>)
    endforeach()
    set(flags_file ${CMAKE_SOURCE_DIR}/src/${name}/flags.cmake)
    if(EXISTS ${flags_file})
        include(${flags_file}) # per-file instruction sets
    endif()
    set_property(GLOBAL APPEND PROPERTY MEGA_ROOMS ${name})
    set_property(GLOBAL PROPERTY MEGA_ROOM_UNDER_${name} ${R_ON})
    set_property(GLOBAL PROPERTY MEGA_ROOM_ON_${name} ${R_ON} ${R_TESTS})
endfunction()

# mega_program(NAME room): the one executable, left at build/NAME: main.c of the room, which is linked with it, so
# that tests may link the rest of the room.
function(mega_program name folder)
    add_executable(${name} ${CMAKE_SOURCE_DIR}/src/${folder}/main.c)
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src/${folder})
    get_property(under GLOBAL PROPERTY MEGA_ROOM_UNDER_${folder})
    foreach(room ${folder} ${under})
        target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src/${room}/include)
    endforeach()
    target_link_libraries(${name} PRIVATE mega_flags mega_packed $<LINK_ONLY:mega_${folder}>)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
    target_compile_definitions(${name} PRIVATE MEGA_VERSION="${PROJECT_VERSION}")
    target_compile_definitions(mega_${folder} PRIVATE MEGA_VERSION="${PROJECT_VERSION}")
endfunction()
