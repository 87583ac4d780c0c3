# longshore_install(COMPONENTS KIND FOLDER NAME...): one line for whatever an installation has.
#   COMPONENTS  host, dpu, doc or "host;dpu"
#   KIND        TARGETS (what they build, but not in optional parts of the build that are left out), PROGRAMS or FILES
#   FOLDER      below the prefix
# What is installed is also listed, for begin.cmake, which looks before the first file is copied whether all can be.
set_property(GLOBAL PROPERTY LONGSHORE_INSTALLED "")
# As they are whatever the umask of the user who installs.
set(CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
                                                WORLD_EXECUTE)

function(longshore_install components kind folder)
    foreach(name ${ARGN})
        if(kind STREQUAL "TARGETS")
            if(NOT TARGET ${name})
                continue()
            endif()
            set(source $<TARGET_FILE:${name}>)
        else()
            cmake_path(ABSOLUTE_PATH name BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE source)
        endif()
        foreach(component ${components})
            if(kind STREQUAL "TARGETS")
                foreach(artefact RUNTIME LIBRARY ARCHIVE)
                    list(APPEND artefacts ${artefact} DESTINATION ${folder} COMPONENT ${component})
                endforeach()
                install(TARGETS ${name} ${artefacts})
                unset(artefacts)
            else()
                install(${kind} ${source} DESTINATION ${folder} COMPONENT ${component})
            endif()
            set_property(GLOBAL APPEND PROPERTY LONGSHORE_INSTALLED "${component}|${folder}|${source}")
        endforeach()
    endforeach()
endfunction()

# The steps before the first file and after the last: begin.cmake and end.cmake, with the list.
function(longshore_install_step script)
    install(CODE "
        set(LONGSHORE_INSTALL_LIST \"${CMAKE_BINARY_DIR}/packaging/installed.txt\")
        set(LONGSHORE_DATA ${CMAKE_INSTALL_DATADIR}/longshore)
        set(LONGSHORE_BIN ${CMAKE_INSTALL_BINDIR})
        set(LONGSHORE_UNIT \"${CMAKE_CURRENT_SOURCE_DIR}/longshored.service\")
        include(\"${CMAKE_CURRENT_SOURCE_DIR}/${script}\")" ALL_COMPONENTS)
endfunction()

function(longshore_write_install_list)
    get_property(installed GLOBAL PROPERTY LONGSHORE_INSTALLED)
    list(JOIN installed "\n" lines)
    file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/packaging/installed.txt CONTENT "${lines}\n")
endfunction()
