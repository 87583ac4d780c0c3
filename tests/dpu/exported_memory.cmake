# Test equipment where no card can export memory: exported_memory.cc.

# `target`, which has UCX linked in, does as if there were such a card; in each process that many exports succeed, and
# that many imports.
function(longshore_export_memory target exports imports)
    target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests/dpu/exported_memory.cc)
    target_compile_definitions(${target} PRIVATE LONGSHORE_TEST_EXPORTS=${exports} LONGSHORE_TEST_IMPORTS=${imports})
    foreach(name init_version memh_pack memh_buffer_release mem_map mem_unmap mem_query get_nbx)
        target_link_options(${target} PRIVATE -Wl,--wrap=ucp_${name})
    endforeach()
endfunction()

# Parts of longshored of that kind (LONGSHORE_INTERNAL_NETWORK takes one): all succeeds; no import does; the first alone,
# of what an agent gives to try it; the first export alone.
function(longshore_exporting_part name exports imports)
    list(GET LONGSHORE_UCX_EXPORTING_FLAVOURS 0 flavour)
    add_library(${name} MODULE ${CMAKE_SOURCE_DIR}/src/fabric/ucx/part.cc)
    target_link_libraries(${name} PRIVATE longshore_ucx_${flavour})
    target_compile_options(${name} PRIVATE -fvisibility=hidden)
    target_link_options(${name} PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/src/fabric/ucx/part.map)
    set_target_properties(${name} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/dpu)
    longshore_export_memory(${name} ${exports} ${imports})
endfunction()
if(LONGSHORE_UCX_EXPORTING_FLAVOURS)
    longshore_exporting_part(ucx-exports 0xffffffff 0xffffffff)
    longshore_exporting_part(ucx-imports-none 0xffffffff 0)
    longshore_exporting_part(ucx-imports-one 0xffffffff 1)
    longshore_exporting_part(ucx-exports-one 1 0xffffffff)
endif()
