# make install: the program, every room's library and header merged under include/megalith, and a pkg-config file that
# finds them from where it lies itself, so that the prefix may be chosen at installation.
include(GNUInstallDirs)
install(TARGETS megalith RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
get_property(rooms GLOBAL PROPERTY MEGA_ROOMS)
# A room stands before the rooms under it: the order in which a linker wants static libraries.
set(MEGA_PC_LIBS "")
foreach(room ${rooms})
    install(TARGETS mega_${room} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(DIRECTORY ${CMAKE_SOURCE_DIR}/src/${room}/include/megalith DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
    set(MEGA_PC_LIBS "-lmega_${room} ${MEGA_PC_LIBS}")
endforeach()
if(MEGA_MPI AND MPI_C_FOUND)
    string(REPLACE ";" " " MEGA_PC_MPI "${MPI_C_LIBRARIES}")
endif()
file(RELATIVE_PATH MEGA_PC_UP /${CMAKE_INSTALL_LIBDIR} /)
configure_file(${CMAKE_SOURCE_DIR}/cmake/megalith.pc.in ${CMAKE_BINARY_DIR}/megalith.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/megalith.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
