# The tables of src/foreign/ become rows of C, a source file of cli/ each.
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
    list(APPEND foreign_sources ${source})
endforeach()
set_source_files_properties(${foreign_sources} PROPERTIES COMPILE_OPTIONS "${MEGA_SMALL}")
add_custom_target(foreign_rows DEPENDS ${foreign_sources}) # so that two targets do not make a file at once
target_sources(mega_cli PRIVATE ${foreign_sources})
add_dependencies(mega_cli foreign_rows)
