# libmegalith: one object in which all functions are local except those of the installed headers. The archive contains it, and the
# shared library is linked from it. Installed are megalith.h and the headers that it includes; the library consists
# of the rooms of these headers and the rooms below.
set(MEGA_PUBLIC_HEADERS "")
set(public_rooms "")
get_property(all_rooms GLOBAL PROPERTY MEGA_ROOMS)
set(queue megalith.h)
while(queue)
    list(POP_FRONT queue name)
    foreach(room ${all_rooms})
        set(header ${CMAKE_SOURCE_DIR}/src/${room}/include/megalith/${name})
        if(EXISTS ${header} AND NOT header IN_LIST MEGA_PUBLIC_HEADERS)
            list(APPEND MEGA_PUBLIC_HEADERS ${header})
            list(APPEND public_rooms ${room})
            set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
            file(STRINGS ${header} lines REGEX "^#include \"megalith/")
            foreach(line ${lines})
                string(REGEX REPLACE ".*megalith/([a-z0-9_]+\\.h).*" "\\1" included "${line}")
                list(APPEND queue ${included})
            endforeach()
        endif()
    endforeach()
endwhile()
foreach(room ${public_rooms})
    get_property(on GLOBAL PROPERTY MEGA_ROOM_UNDER_${room})
    list(APPEND public_rooms ${on})
endforeach()
list(REMOVE_DUPLICATES public_rooms)

set(include_folders "")
set(archives "")
set(targets "")
foreach(room ${all_rooms})
    list(APPEND include_folders -I${CMAKE_SOURCE_DIR}/src/${room}/include)
    if(room IN_LIST public_rooms)
        list(APPEND archives $<TARGET_FILE:mega_${room}>)
        list(APPEND targets mega_${room})
    endif()
endforeach()

set(exports ${CMAKE_BINARY_DIR}/library/exports.txt)
add_custom_command(OUTPUT ${exports}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/library
    COMMAND sh ${CMAKE_SOURCE_DIR}/cmake/exports.sh ${exports} ${CMAKE_C_COMPILER} ${include_folders}
    DEPENDS ${CMAKE_SOURCE_DIR}/cmake/exports.sh ${MEGA_PUBLIC_HEADERS}
    COMMENT "Listing the functions of the installed headers" VERBATIM)
set(object ${CMAKE_BINARY_DIR}/library/megalith.o)
add_custom_command(OUTPUT ${object}
    COMMAND ${CMAKE_LINKER} -r --whole-archive ${archives} -o ${object}.all
    COMMAND ${CMAKE_OBJCOPY} --keep-global-symbols=${exports} ${object}.all ${object}
    COMMAND ${CMAKE_COMMAND} -E rm ${object}.all
    DEPENDS ${exports} ${targets}
    COMMENT "Linking the rooms to one object that exports the functions of the installed headers" VERBATIM)
set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)

add_library(megalith_archive STATIC ${object})
add_library(megalith_shared SHARED ${object})
set_target_properties(megalith_archive megalith_shared PROPERTIES OUTPUT_NAME megalith LINKER_LANGUAGE C)
# Before version 1.0 a new minor version may change any function or struct, so each minor version has its own soname.
set_target_properties(megalith_shared PROPERTIES VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_link_libraries(megalith_shared PRIVATE mega_flags mega_packed mega_mpi mega_jansson mega_zlib mega_zstd mega_pcre2 mega_utf8proc Threads::Threads m)
if(NOT MEGA_SANITIZE) # whose functions are in the program
    target_link_options(megalith_shared PRIVATE -Wl,--no-undefined)
endif()
add_custom_target(library DEPENDS megalith_archive megalith_shared)
