# make install: the program, the library (shared and as an archive), megalith.h with the headers that it includes, the
# module for Python, and a pkg-config file. It and the module find the others from where they lie themselves, so that
# the prefix may be chosen at installation.
include(GNUInstallDirs)
# What is installed has no symbols of its own functions, as in packages; the program in build/ keeps them, for debuggers and profilers.
# Reports of the sanitizers need them everywhere.
if(CMAKE_BUILD_TYPE STREQUAL Release)
    install(CODE "set(CMAKE_INSTALL_DO_STRIP 1)")
endif()
install(TARGETS megalith RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS megalith_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS megalith_archive ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${MEGA_PUBLIC_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/megalith)
install(FILES ${CMAKE_SOURCE_DIR}/python/megalith.py DESTINATION ${CMAKE_INSTALL_DATADIR}/megalith)
set(MEGA_PC_MPI "")
if(MEGA_MPI AND MPI_C_FOUND)
    string(REPLACE ";" " " MEGA_PC_MPI "${MPI_C_LIBRARIES}")
endif()
file(RELATIVE_PATH MEGA_PC_UP /${CMAKE_INSTALL_LIBDIR} /)
configure_file(${CMAKE_SOURCE_DIR}/cmake/megalith.pc.in ${CMAKE_BINARY_DIR}/megalith.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/megalith.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
