# What declares parameters is small rather than fast; what fills them with numbers, and sums gradients, is fast.
set(small ${sources})
list(FILTER small EXCLUDE REGEX "/parameter_(init|sums)\\.c$")
set_source_files_properties(${small} PROPERTIES COMPILE_OPTIONS "${MEGA_SMALL}")
