# For tests: LONGSHORE_PYTHON is the system's; LONGSHORE_DRAWING_PYTHON that of 'make venv', which has matplotlib, where that was
# made, else the system's, and what draws is skipped then if it has none. Both are NOTFOUND where there is no Python.
find_program(LONGSHORE_PYTHON python3)
set(LONGSHORE_DRAWING_PYTHON ${LONGSHORE_PYTHON})
if(EXISTS ${CMAKE_BINARY_DIR}/venv/bin/python)
    set(LONGSHORE_DRAWING_PYTHON ${CMAKE_BINARY_DIR}/venv/bin/python)
endif()
