# The list of families is made of the files of families/models/: a new family is a file.
file(GLOB family_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/families/models/*.c)
set(family_list ${CMAKE_BINARY_DIR}/families/family_list.c)
add_custom_command(OUTPUT ${family_list}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/families
    COMMAND awk -v output=${family_list} -f ${CMAKE_SOURCE_DIR}/cmake/families.awk ${family_files}
    DEPENDS ${CMAKE_SOURCE_DIR}/cmake/families.awk ${family_files}
    COMMENT "Making the list of families" VERBATIM)
target_sources(mega_families PRIVATE ${family_list})
