# Small rather than fast, but for the loops over a vocabulary.
set(small ${sources})
list(FILTER small EXCLUDE REGEX "/(sample|beam)\\.c$")
set_source_files_properties(${small} PROPERTIES COMPILE_OPTIONS "${MEGA_SMALL}")
