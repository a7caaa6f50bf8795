# The files of examples/template/ become part of the program: megalith new writes them (src/cli/new.c).
set(template_files "")
foreach(name PROJECT.c ds.json Makefile README.md gitignore)
    list(APPEND template_files ${CMAKE_SOURCE_DIR}/examples/template/${name})
endforeach()
set(template_written ${CMAKE_BINARY_DIR}/template/template_files.inc)
add_custom_command(OUTPUT ${template_written}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/template
    COMMAND sh ${CMAKE_SOURCE_DIR}/cmake/template.sh ${template_written} ${template_files}
    DEPENDS ${CMAKE_SOURCE_DIR}/cmake/template.sh ${template_files}
    COMMENT "Writing the files of examples/template as an array of C" VERBATIM)
target_sources(mega_cli PRIVATE ${template_written})
target_include_directories(mega_cli PRIVATE ${CMAKE_BINARY_DIR}/template)
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/cli/new.c PROPERTIES OBJECT_DEPENDS ${template_written})
