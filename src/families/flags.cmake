# No hot loops here: small rather than fast.
set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "${MEGA_SMALL}")
