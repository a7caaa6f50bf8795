# What builds programs is small rather than fast, but for the search for places in memory; what runs them is fast.
set(small ${sources})
list(FILTER small EXCLUDE REGEX "/(execute|control|bucket|in_flight|packed_weights|memory_offsets|memory_plan|probes)\\.c$")
set_source_files_properties(${small} PROPERTIES COMPILE_OPTIONS "${MEGA_SMALL}")
