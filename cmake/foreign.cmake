# The tables of src/foreign/ become rows of C, a source file each: of cli/, or of the room that a line "room" names.
file(GLOB foreign_tables CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/foreign/*.txt)
set(foreign_sources "")
set(foreign_headers ${CMAKE_SOURCE_DIR}/src/base/include/megalith/option.h ${CMAKE_SOURCE_DIR}/src/cli/options_impl.h)
foreach(table ${foreign_tables})
    get_filename_component(name ${table} NAME_WE)
    set(source ${CMAKE_BINARY_DIR}/foreign/${name}.c)
    add_custom_command(OUTPUT ${source}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/foreign
        COMMAND awk -v output=${source} -f ${CMAKE_SOURCE_DIR}/cmake/foreign.awk ${foreign_headers} ${table}
        DEPENDS ${CMAKE_SOURCE_DIR}/cmake/foreign.awk ${foreign_headers} ${table}
        COMMENT "Making rows of C of src/foreign/${name}.txt" VERBATIM)
    file(STRINGS ${table} room REGEX "^room ")
    string(REGEX REPLACE "^room ([a-z]+) .*" "\\1" room "${room}")
    if(NOT room)
        set(room cli)
    endif()
    target_sources(mega_${room} PRIVATE ${source})
    list(APPEND foreign_sources ${source})
    list(APPEND foreign_sources_${room} ${source})
endforeach()
set_source_files_properties(${foreign_sources} PROPERTIES COMPILE_OPTIONS "${MEGA_SMALL}")
add_custom_target(foreign_rows DEPENDS ${foreign_sources}) # so that two targets do not make a file at once
foreach(room cli engine launch)
    add_dependencies(mega_${room} foreign_rows)
endforeach()
