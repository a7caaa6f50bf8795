# What watches other ranks is small rather than fast.
set(small ${sources})
list(FILTER small INCLUDE REGEX "/watch/")
set_source_files_properties(${small} PROPERTIES COMPILE_OPTIONS "${MEGA_SMALL}")
