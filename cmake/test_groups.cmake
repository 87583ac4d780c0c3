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

# How many of the places that ctest has (PROCESSORS) an example's or a benchmark's job takes. MPICH's ranks keep a core while they
# wait; Open MPI's give it away (mpi_yield_when_idle). Two of three places are hardly ever free before all other tests have begun.
set(LONGSHORE_PLACES_openmpi 1)
set(LONGSHORE_PLACES_mpich 2)
