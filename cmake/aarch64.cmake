# Cross-builds for 64-bit Arm with Debian's g++-aarch64-linux-gnu; what is built runs here under QEMU's user emulation.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# The root to run in: that of the compiler, or that which 'make ucx-aarch64' has made, with all that UCX needs.
get_filename_component(root ${CMAKE_CURRENT_LIST_DIR}/../build/ucx-aarch64 ABSOLUTE)
if(NOT EXISTS ${root}/.installed)
    set(root /usr/aarch64-linux-gnu)
endif()
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L ${root})

# The host's libraries and headers are not the target's.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
    set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
