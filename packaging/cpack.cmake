# `make packages`: .deb packages of what `make install` installs, for hosts, for DPUs and the documentation, and a tarball of all. The
# steps before and after the files (begin.cmake, end.cmake) need the prefix that the package has, hence DESTDIR.
set(CPACK_GENERATOR "DEB;TGZ")
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_NAME longshore)
set(CPACK_PACKAGE_VENDOR "The Longshore developers")
set(CPACK_PACKAGE_CONTACT "The Longshore developers <longshore@invalid>")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "MPI collectives carried by service processes on a DPU or spare cores")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL host dpu)
if(LONGSHORE_HOST)
    list(APPEND CPACK_COMPONENTS_ALL doc)
endif()
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_SOURCE_DIR}/cpack_one_list.cmake)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_SOURCE_DIR}/cpack_dependencies.cmake)
set(CPACK_LONGSHORE_BUILD ${CMAKE_BINARY_DIR})  # for that file

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_HOST_PACKAGE_NAME longshore)
set(CPACK_DEBIAN_DPU_PACKAGE_NAME longshore-dpu)
# Both have the service and its network parts.
set(CPACK_DEBIAN_HOST_PACKAGE_CONFLICTS longshore-dpu)
set(CPACK_DEBIAN_DPU_PACKAGE_CONFLICTS longshore)
set(CPACK_COMPONENT_HOST_DESCRIPTION
    "The longshore command, the library that is preloaded into MPI programs, the
service processes, benchmarks and headers: for machines whose ranks compute.")
set(CPACK_COMPONENT_DPU_DESCRIPTION
    "The standing service that carries the collectives of a host's jobs on a DPU,
an example of its configuration and a unit for systemd (not enabled).")
set(CPACK_DEBIAN_DOC_PACKAGE_NAME longshore-doc)
set(CPACK_DEBIAN_DOC_PACKAGE_SECTION doc)
set(CPACK_DEBIAN_DOC_PACKAGE_ARCHITECTURE all)
set(CPACK_COMPONENT_DOC_DESCRIPTION
    "The pages on using, running and understanding Longshore, the figures that they
quote, and the sources of the examples: in /usr/share/doc/longshore.")
# A shim is there for each MPI of the machine that built it, and none needs the others.
set(CPACK_DEBIAN_HOST_PACKAGE_RECOMMENDS "openmpi-bin | mpich")
# The network part for RDMA is opened only where UCX is.
set(CPACK_DEBIAN_HOST_PACKAGE_SUGGESTS "libucx0, python3-matplotlib")
set(CPACK_DEBIAN_DPU_PACKAGE_SUGGESTS libucx0)
include(CPack)
