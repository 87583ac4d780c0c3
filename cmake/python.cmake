# For tests that are Python scripts, which pytest runs: LONGSHORE_TEST_PYTHON is the first python3 that has it, often the system's;
# LONGSHORE_DRAWING_PYTHON that of 'make venv', which has matplotlib, too, where that was made, else the same, and what draws is
# skipped then if it has none. NOTFOUND where no Python has pytest.
function(longshore_has_pytest has_it python)
    execute_process(COMMAND ${python} -c "import pytest; pytest.version_tuple >= (9,) or __import__('pytest_subtests')"
                    RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
    if(NOT result EQUAL 0)
        set(${has_it} FALSE PARENT_SCOPE)
    endif()
endfunction()
find_program(LONGSHORE_TEST_PYTHON python3 VALIDATOR longshore_has_pytest)
if(NOT LONGSHORE_TEST_PYTHON)
    message(NOTICE "tests: no python3 has pytest and pytest-subtests: scripts are left out ('make deps-test' installs them)")
endif()
set(LONGSHORE_DRAWING_PYTHON ${LONGSHORE_TEST_PYTHON})
set(venv ${CMAKE_BINARY_DIR}/venv/bin/python)
if(EXISTS ${venv})
    set(has_pytest TRUE)
    longshore_has_pytest(has_pytest ${venv})
    if(has_pytest)
        set(LONGSHORE_DRAWING_PYTHON ${venv})
    endif()
endif()

# Words as one, which shlex.split takes apart: for a variable of the environment.
#   longshore_quote(RESULT WORD...)
function(longshore_quote result)
    list(TRANSFORM ARGN REPLACE "'" "'\\\\''")
    list(TRANSFORM ARGN PREPEND "'")
    list(TRANSFORM ARGN APPEND "'")
    list(JOIN ARGN " " quoted)
    set(${result} ${quoted} PARENT_SCOPE)
endfunction()

# longshore_add_python_test(TEST SCRIPT [CLASS[.METHOD]...] [DRAWING] [BEFORE COMMAND...] [ENVIRONMENT NAME=VALUE...] [PROPERTIES NAME VALUE...])
# The tests of a script, or some of them, by pytest (pytest.ini, conftest.py), after a command if there is one. They find what is built
# in LONGSHORE_INTERNAL_TEST_BUILD, and all else that they need to know in the environment. Where all are skipped, so is this test.
# DRAWING: by the Python that has matplotlib.
function(longshore_add_python_test test script)
    cmake_parse_arguments(PARSE_ARGV 2 arg DRAWING "" "BEFORE;ENVIRONMENT;PROPERTIES")
    set(python ${LONGSHORE_TEST_PYTHON})
    if(arg_DRAWING)
        set(python ${LONGSHORE_DRAWING_PYTHON})
    endif()
    if(NOT python)
        return()
    endif()
    set(chosen ${arg_UNPARSED_ARGUMENTS})
    list(TRANSFORM chosen REPLACE "\\." "::")
    list(TRANSFORM chosen PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/${script}::)
    if(NOT chosen)
        set(chosen ${CMAKE_CURRENT_SOURCE_DIR}/${script})
    endif()
    add_test(NAME ${test} COMMAND ${arg_BEFORE} ${python} -P -m pytest ${chosen})
    set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77 ${arg_PROPERTIES} ENVIRONMENT
        "PYTHONDONTWRITEBYTECODE=1;LONGSHORE_INTERNAL_TEST_BUILD=${CMAKE_BINARY_DIR};${arg_ENVIRONMENT}")
endfunction()
