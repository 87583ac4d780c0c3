# Two groups of tests: what `make test` runs, which is what a change breaks easily and is to take 12 minutes with the build,
# and what `make test-all` runs beside it. A test is in the first unless it is named here, by its folder's CMakeLists.txt:
#   longshore_only_in_test_all(TEST... [MATCHING REGEX])   MATCHING: all tests of the folder so far whose names match
function(longshore_only_in_test_all)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" MATCHING "")
    set(tests ${arg_UNPARSED_ARGUMENTS})
    if(arg_MATCHING)
        get_property(matching DIRECTORY PROPERTY TESTS)
        list(FILTER matching INCLUDE REGEX "${arg_MATCHING}")
        list(APPEND tests ${matching})
    endif()
    foreach(test ${tests})
        set_property(TEST ${test} APPEND PROPERTY LABELS test-all)
    endforeach()
endfunction()

# How many of ctest's places a small job of an MPI takes (PROCESSORS). MPICH's ranks keep a core while they wait; Open MPI's give
# it away (mpi_yield_when_idle), and a test that takes two places begins when nothing else is left to begin.
set(LONGSHORE_PLACES_openmpi 1)
set(LONGSHORE_PLACES_mpich 2)
