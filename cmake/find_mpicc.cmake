# longshore_find_mpicc(openmpi|mpich VARIABLE): the compiler wrapper of that MPI, or nothing. Debian names each after its MPI;
# elsewhere, as after a `module load`, the plain one is asked whose it is.
function(longshore_find_mpicc flavour variable)
    find_program(LONGSHORE_MPICC_${flavour} mpicc.${flavour})
    set(found ${LONGSHORE_MPICC_${flavour}})
    if(NOT found)
        find_program(LONGSHORE_MPICC mpicc)
        if(LONGSHORE_MPICC)
            # Each knows one of the two, and takes the other for an option of the compiler.
            execute_process(COMMAND ${LONGSHORE_MPICC} --showme:version OUTPUT_VARIABLE open_mpi ERROR_VARIABLE open_mpi)
            execute_process(COMMAND ${LONGSHORE_MPICC} -v OUTPUT_VARIABLE mpich ERROR_VARIABLE mpich)
            if((flavour STREQUAL "openmpi" AND open_mpi MATCHES "Open MPI") OR
               (flavour STREQUAL "mpich" AND mpich MATCHES "for MPICH version"))
                set(found ${LONGSHORE_MPICC})
            endif()
        endif()
    endif()
    set(${variable} ${found} PARENT_SCOPE)
endfunction()
