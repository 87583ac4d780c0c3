# Before a package is made: the documentation's has no list of its files (end.cmake), which is that of the package beside it.
if(CPACK_GENERATOR STREQUAL "DEB")
    file(REMOVE_RECURSE ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/doc/usr/share/longshore)
endif()
