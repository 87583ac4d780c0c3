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
        if(TEST ${test})  # without Python there are fewer
            set_property(TEST ${test} APPEND PROPERTY LABELS test-all)
        endif()
    endforeach()
endfunction()

# Programs that only those tests start: `make build` and `make test` leave them out, `make build-all` and `make test-all` build them.
add_custom_target(test_all_programs)
function(longshore_build_only_for_test_all)
    if(CMAKE_CROSSCOMPILING)  # `make test-aarch64` runs all that there is
        return()
    endif()
    set_target_properties(${ARGN} PROPERTIES EXCLUDE_FROM_ALL ON)
    add_dependencies(test_all_programs ${ARGN})
endfunction()

# Of two MPIs that are there the second (MPICH): what hardly depends on the MPI is for `make test-all` alone with it.
set(LONGSHORE_SECOND_MPI "")
list(LENGTH LONGSHORE_MPI_FLAVOURS flavours)
if(flavours GREATER 1)
    list(GET LONGSHORE_MPI_FLAVOURS 1 LONGSHORE_SECOND_MPI)
endif()

# How many of the places that ctest has (PROCESSORS) an example's or a benchmark's job takes. MPICH's ranks keep a core while they
# wait; Open MPI's give it away (mpi_yield_when_idle). Two of three places are hardly ever free before all other tests have begun.
set(LONGSHORE_PLACES_openmpi 1)
set(LONGSHORE_PLACES_mpich 2)
