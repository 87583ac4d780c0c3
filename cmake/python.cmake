# For tests: LONGSHORE_PYTHON is the system's; LONGSHORE_DRAWING_PYTHON that of 'make venv', which has matplotlib, where that was
# made, else the system's, and what draws is skipped then if it has none. Both are NOTFOUND where there is no Python.
find_program(LONGSHORE_PYTHON python3)
set(LONGSHORE_DRAWING_PYTHON ${LONGSHORE_PYTHON})
if(EXISTS ${CMAKE_BINARY_DIR}/venv/bin/python)
    set(LONGSHORE_DRAWING_PYTHON ${CMAKE_BINARY_DIR}/venv/bin/python)
endif()

# longshore_add_python_test(TEST SCRIPT [ARGUMENT...] [DRAWING] [BEFORE COMMAND...] [ENVIRONMENT NAME=VALUE...] [PROPERTIES NAME VALUE...])
# A script that finds what is built in LONGSHORE_INTERNAL_TEST_BUILD, after the command if there is one. It says by 77 that it is skipped.
# DRAWING: by the Python that has matplotlib.
function(longshore_add_python_test test script)
    cmake_parse_arguments(PARSE_ARGV 2 arg DRAWING "" "BEFORE;ENVIRONMENT;PROPERTIES")
    set(python ${LONGSHORE_PYTHON})
    if(arg_DRAWING)
        set(python ${LONGSHORE_DRAWING_PYTHON})
    endif()
    if(NOT python)
        message(STATUS "${test}: no python3, left out")
        return()
    endif()
    add_test(NAME ${test} COMMAND ${arg_BEFORE} ${python} ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${arg_UNPARSED_ARGUMENTS})
    set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77 ${arg_PROPERTIES} ENVIRONMENT
        "PYTHONDONTWRITEBYTECODE=1;LONGSHORE_INTERNAL_TEST_BUILD=${CMAKE_BINARY_DIR};${arg_ENVIRONMENT}")
endfunction()
