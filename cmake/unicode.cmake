# The general categories of characters become a source file of text/.
set(unicode_folder ${CMAKE_SOURCE_DIR}/src/text/unicode)
set(unicode_table ${CMAKE_BINARY_DIR}/unicode/unicode_table.c)
add_custom_command(OUTPUT ${unicode_table}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/unicode
    COMMAND awk -v output=${unicode_table} -f ${CMAKE_SOURCE_DIR}/cmake/unicode.awk
        ${unicode_folder}/unicode.h ${unicode_folder}/categories.txt
    DEPENDS ${CMAKE_SOURCE_DIR}/cmake/unicode.awk ${unicode_folder}/unicode.h ${unicode_folder}/categories.txt
    COMMENT "Making C of the categories of characters" VERBATIM)
set_source_files_properties(${unicode_table} PROPERTIES INCLUDE_DIRECTORIES ${unicode_folder})
target_sources(mega_text PRIVATE ${unicode_table})
