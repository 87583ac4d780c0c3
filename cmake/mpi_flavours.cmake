# The MPIs that there are, side by side: for each an interface target mpi_<flavour>. Their own compiler wrappers tell the
# flags. LONGSHORE_MPI_FLAVOURS are a Debian machine's, which all is built for; LONGSHORE_CURRENT_MPI_FLAVOURS the current
# releases that 'make mpis' installs, which tests are built for. LONGSHORE_MPI_CORES are the ABIs found, one shim core
# each: Open MPI 4 and 5 have one, MPICH 4 and 5 another, and MPI 5 has defined one for all implementations.
#
# Under a sanitizer the shim alone is built with the MPIs, and programs that call it (LONGSHORE_SHIM_FLAVOURS); for all else
# there is no MPI then.
set(LONGSHORE_MPI_FLAVOURS "")
set(LONGSHORE_CURRENT_MPI_FLAVOURS "")
set(LONGSHORE_MPI_CORES "")
set(LONGSHORE_CURRENT_MPI_FOLDER ${CMAKE_SOURCE_DIR}/build/mpi5 CACHE PATH "Where 'make mpis' has put current MPIs")

# mpi_<flavour> from what `wrapper` shows; mpi_<flavour>_headers is all that a core needs.
function(longshore_add_mpi flavour wrapper)
    execute_process(COMMAND ${wrapper} -show OUTPUT_VARIABLE shown OUTPUT_STRIP_TRAILING_WHITESPACE
                    COMMAND_ERROR_IS_FATAL ANY)
    separate_arguments(words UNIX_COMMAND "${shown}")
    add_library(mpi_${flavour}_headers INTERFACE)
    # The C++ bindings that MPI-3 removed would need a library of their own.
    target_compile_definitions(mpi_${flavour}_headers INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
    add_library(mpi_${flavour} INTERFACE)
    target_link_libraries(mpi_${flavour} INTERFACE mpi_${flavour}_headers)
    foreach(word ${words})
        if(word MATCHES "^-I(.+)")
            target_include_directories(mpi_${flavour}_headers SYSTEM INTERFACE ${CMAKE_MATCH_1})
        elseif(word MATCHES "^-D(.+)")
            target_compile_definitions(mpi_${flavour}_headers INTERFACE ${CMAKE_MATCH_1})
        elseif(word MATCHES "^-L(.+)")
            target_link_directories(mpi_${flavour} INTERFACE ${CMAKE_MATCH_1})
        elseif(word MATCHES "^-Wl,(/.+)")  # of -Wl,-rpath -Wl,FOLDER
            target_link_options(mpi_${flavour} INTERFACE -Wl,-rpath,${CMAKE_MATCH_1})
        elseif(word MATCHES "^-l(.+)")
            target_link_libraries(mpi_${flavour} INTERFACE -l${CMAKE_MATCH_1})  # mpi_abi is a target's name, too
        endif()
    endforeach()
    message(STATUS "MPI ${flavour}: ${wrapper}")
endfunction()

# The core of that name is built with the headers of the first MPI that has its ABI.
macro(longshore_add_mpi_core core flavour)
    if(NOT ${core} IN_LIST LONGSHORE_MPI_CORES)
        list(APPEND LONGSHORE_MPI_CORES ${core})
        set(LONGSHORE_MPI_HEADERS_${core} mpi_${flavour}_headers)
    endif()
endmacro()

include(${CMAKE_CURRENT_LIST_DIR}/find_mpicc.cmake)
if(LONGSHORE_MPI)
    foreach(flavour openmpi mpich)
        longshore_find_mpicc(${flavour} wrapper)
        if(NOT wrapper)
            message(STATUS "MPI ${flavour}: not found (no mpicc.${flavour}, and mpicc is none of it), left out")
            continue()
        endif()
        longshore_add_mpi(${flavour} ${wrapper})
        list(APPEND LONGSHORE_MPI_FLAVOURS ${flavour})
        longshore_add_mpi_core(${flavour} ${flavour})
    endforeach()
    foreach(triple openmpi5:openmpi/bin/mpicc:openmpi mpich5:mpich/bin/mpicc:mpich abi:mpich/bin/mpicc_abi:abi)
        string(REPLACE ":" ";" triple ${triple})
        list(GET triple 0 flavour)
        list(GET triple 1 wrapper)
        list(GET triple 2 core)
        # Installed last: a folder without it is half an installation.
        cmake_path(SET wrapper NORMALIZE ${LONGSHORE_CURRENT_MPI_FOLDER}/${wrapper})
        cmake_path(GET wrapper PARENT_PATH programs)
        if(LONGSHORE_SANITIZE)
            continue()
        elseif(NOT EXISTS ${wrapper} OR NOT EXISTS ${programs}/../.installed)
            message(STATUS "MPI ${flavour}: not installed (make mpis), left out")
            continue()
        endif()
        longshore_add_mpi(${flavour} ${wrapper})
        list(APPEND LONGSHORE_CURRENT_MPI_FLAVOURS ${flavour})
        set(LONGSHORE_MPIRUN_${flavour} ${programs}/mpirun)
        set(LONGSHORE_MPI_CORE_OF_${flavour} ${core})
        longshore_add_mpi_core(${core} ${flavour})
    endforeach()
endif()
set(LONGSHORE_SHIM_FLAVOURS ${LONGSHORE_MPI_FLAVOURS})
if(LONGSHORE_SANITIZE)
    set(LONGSHORE_MPI OFF)
    set(LONGSHORE_MPI_FLAVOURS "")
endif()
