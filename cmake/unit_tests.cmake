# longshore_add_unit_test(TEST PROGRAM SOURCE... [BEFORE COMMAND...] [LIBRARIES LIBRARY...])
# A program of GoogleTest, and the test that runs all of it, after the command if there is one.
# Where there is no GoogleTest (GTest_FOUND), nobody may call it.
if(BUILD_TESTING)
    find_package(GTest QUIET)
endif()
if(NOT GTest_FOUND)
    message(STATUS "tests: no GoogleTest, unit tests are left out ('make deps-test' installs it)")
    return()
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # Wrong about std::string there (GCC bug 105329), as it is about headers of the system that were precompiled.
    list(APPEND LONGSHORE_TEST_OPTIONS -Wno-array-bounds -Wno-stringop-overflow)
endif()

# Its headers take longer to read than most tests to compile: they are read once. With the options of programs.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/longshore_gtest.cc CONTENT "")
add_library(longshore_gtest OBJECT ${CMAKE_BINARY_DIR}/longshore_gtest.cc)
target_link_libraries(longshore_gtest PRIVATE longshore_flags GTest::gtest)
target_compile_options(longshore_gtest PRIVATE ${LONGSHORE_TEST_OPTIONS} ${CMAKE_CXX_COMPILE_OPTIONS_PIE})
target_precompile_headers(longshore_gtest PRIVATE <gtest/gtest.h> <algorithm> <cstring> <thread> <vector>)
set_target_properties(longshore_gtest PROPERTIES POSITION_INDEPENDENT_CODE OFF)

function(longshore_add_unit_test test program)
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "BEFORE;LIBRARIES")
    add_executable(${program} ${arg_UNPARSED_ARGUMENTS})
    target_link_libraries(${program} PRIVATE ${arg_LIBRARIES} longshore_flags GTest::gtest_main)
    target_compile_options(${program} PRIVATE ${LONGSHORE_TEST_OPTIONS})
    target_precompile_headers(${program} REUSE_FROM longshore_gtest)
    if(arg_BEFORE)
        add_test(NAME ${test} COMMAND ${arg_BEFORE} $<TARGET_FILE:${program}>)
    else()
        add_test(NAME ${test} COMMAND ${program})  # by the emulator in a cross-build
    endif()
endfunction()
