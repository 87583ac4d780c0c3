# Test equipment where no card can export memory: exported_memory.cc.

# `target`, which has UCX linked in, does as if there were such a card; exports and imports succeed of pieces of so many
# bytes (exported_memory.h).
function(longshore_export_memory target exports imports)
    target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests/dpu/exported_memory.cc)
    target_compile_definitions(${target} PRIVATE LONGSHORE_TEST_EXPORTS=${exports} LONGSHORE_TEST_IMPORTS=${imports})
    foreach(name init_version memh_pack memh_buffer_release mem_map mem_unmap mem_query get_nbx)
        target_link_options(${target} PRIVATE -Wl,--wrap=ucp_${name})
    endforeach()
endfunction()

# Parts of longshored of that kind (LONGSHORE_INTERNAL_NETWORK takes one). 4096: what an agent gives to try it, alone.
function(longshore_exporting_part name exports imports)
    list(GET LONGSHORE_UCX_EXPORTING_FLAVOURS 0 flavour)
    add_library(${name} MODULE ${CMAKE_SOURCE_DIR}/src/fabric/ucx/part.cc)
    target_link_libraries(${name} PRIVATE longshore_dpu_ucx_${flavour})
    target_compile_options(${name} PRIVATE -fvisibility=hidden)
    target_link_options(${name} PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/src/fabric/part.map)
    set_target_properties(${name} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/dpu)
    longshore_export_memory(${name} ${exports} ${imports})
endfunction()
if(LONGSHORE_UCX_EXPORTING_FLAVOURS AND LONGSHORE_DPU)
    longshore_exporting_part(ucx-exports kAll kAll)
    longshore_exporting_part(ucx-exports-probe 4096 kAll)
    longshore_exporting_part(ucx-imports-none kAll kNone)
    longshore_exporting_part(ucx-imports-probe kAll 4096)
    longshore_exporting_part(ucx-imports-abort kAll kAborts)
endif()
