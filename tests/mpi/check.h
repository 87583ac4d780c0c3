// What the test programs share: how one begins and ends, a check that names its place, and contents that say
// where a byte came from.
#pragma once

#include <mpi.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

// Begins a program of an executable that holds many (programs.cc), in the place of main.
#define PROGRAM(name)                                              \
    static int name##_program(int argc, char** argv);              \
    static const Program name##_registered(#name, name##_program); \
    static int name##_program([[maybe_unused]] int argc, [[maybe_unused]] char** argv)

struct Program {
    Program(const char* name, int (*run)(int argc, char** argv));
    const char* name;
    int (*run)(int argc, char** argv);
    const Program* next;
};

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            int world_rank_ = -1;                                                                 \
            MPI_Comm_rank(MPI_COMM_WORLD, &world_rank_);                                          \
            fprintf(stderr, "rank %d: %s:%d: %s\n", world_rank_, __FILE__, __LINE__, #condition); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                         \
        }                                                                                         \
    } while (0)

// Byte `i` of the block that `source` sends to `destination` in call `tag`.
inline unsigned char byte_of(uint32_t source, uint32_t destination, uint32_t tag, uint64_t i) {
    uint32_t x = source * 0x9E3779B1u ^ destination * 0x85EBCA77u ^ tag * 0xC2B2AE3Du ^
                 static_cast<uint32_t>(i) * 0x27D4EB2Fu;
    return static_cast<unsigned char>((x ^ (x >> 15)) >> 3);
}

inline void fill(void* memory, uint64_t bytes, int source, int destination, int tag) {
    auto* at = static_cast<unsigned char*>(memory);
    for (uint64_t i = 0; i < bytes; ++i)
        at[i] = byte_of(static_cast<uint32_t>(source), static_cast<uint32_t>(destination),
                        static_cast<uint32_t>(tag), i);
}

inline bool is_filled(const void* memory, uint64_t bytes, int source, int destination, int tag) {
    const auto* at = static_cast<const unsigned char*>(memory);
    for (uint64_t i = 0; i < bytes; ++i)
        if (at[i] != byte_of(static_cast<uint32_t>(source), static_cast<uint32_t>(destination),
                             static_cast<uint32_t>(tag), i))
            return false;
    return true;
}

inline int class_of(int code) {
    int result = MPI_SUCCESS;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &result);
    return result;
}

// `bytes` plain bytes, then a hole: packed by its rank.
inline MPI_Datatype with_hole(int bytes, int hole) {
    MPI_Datatype bytes_type, type;
    MPI_Type_contiguous(bytes, MPI_BYTE, &bytes_type);
    MPI_Type_create_resized(bytes_type, 0, bytes + hole, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&bytes_type);
    return type;
}

inline int finish(const char* name) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Finalize();
    if (rank == 0) printf("%s: ok\n", name);
    return 0;
}
