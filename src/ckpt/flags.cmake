# Small rather than fast, but for the loops over all elements.
set(small ${sources})
list(FILTER small EXCLUDE REGEX "/(state_move|checksums_sum)\\.c$")
set_source_files_properties(${small} PROPERTIES COMPILE_OPTIONS "${MEGA_SMALL}")
