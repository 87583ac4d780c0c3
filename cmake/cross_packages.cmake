# In a cross-build find_package() finds nothing of the host's: what tests need is built for the target from Debian's
# sources (package googletest), and CLI11, which is headers alone, is taken from the host.
include(FetchContent)
if(EXISTS /usr/src/googletest/CMakeLists.txt)
    set(INSTALL_GTEST OFF)
    set(BUILD_GMOCK OFF)
    FetchContent_Declare(GTest SOURCE_DIR /usr/src/googletest OVERRIDE_FIND_PACKAGE)
endif()
if(EXISTS /usr/include/CLI/CLI.hpp)
    # By a link, because the rest of /usr/include must not be seen.
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/host_headers)
    file(CREATE_LINK /usr/include/CLI ${CMAKE_BINARY_DIR}/host_headers/CLI SYMBOLIC)
    file(WRITE ${CMAKE_FIND_PACKAGE_REDIRECTS_DIR}/CLI11Config.cmake
         "add_library(CLI11::CLI11 INTERFACE IMPORTED)\n"
         "target_include_directories(CLI11::CLI11 SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/host_headers)\n")
endif()

# As a processor that lacks the atomic instructions of Armv8.1 runs it, BlueField-2's for one.
function(longshore_test_without_lse name target)
    add_test(NAME ${name}.without_lse COMMAND ${target})
    set_tests_properties(${name}.without_lse PROPERTIES ENVIRONMENT QEMU_CPU=cortex-a72 TIMEOUT 300)
endfunction()
