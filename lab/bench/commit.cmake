# Writes OUTPUT with the commit of SOURCE, only where it changed, so that nothing is rebuilt for nothing.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --tags
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
    set(commit "unknown")
endif()
set(text "#pragma once\ninline constexpr char kCommit[] = \"${commit}\";\n")
set(before "")
if(EXISTS ${OUTPUT})
    file(READ ${OUTPUT} before)
endif()
if(NOT before STREQUAL text)
    file(WRITE ${OUTPUT} "${text}")
endif()
