// A call of any family in any of its three forms, with blocks of one size.
#pragma once

#include <vector>

#include "check.h"
#include "kinds.h"
#include "persistent.h"

enum Form { kBlocking, kNonblocking, kPersistent, kForms };

// The blocks of one buffer, `step` bytes from one to the next. What is not blocking reads it until it is
// over.
struct Blocks {
    Blocks(int blocks, int count_of_one, MPI_Datatype type_of_one, int step)
        : count(count_of_one), type(type_of_one) {
        for (int i = 0; i < blocks; ++i) {
            counts.push_back(count);
            displacements.push_back(i * count);
            bytes.push_back(i * step);
            types.push_back(type);
        }
    }
    int count;
    MPI_Datatype type;
    std::vector<int> counts, displacements, bytes;
    std::vector<MPI_Datatype> types;
};

// Its error. The request is that of a nonblocking or persistent call, not started.
inline int make_call(Kind kind, Form form, const void* from, const Blocks& s, void* to, const Blocks& r,
                     int root, MPI_Comm comm, MPI_Request* request) {
    const MPI_Info info = MPI_INFO_NULL;
    const int *sc = s.counts.data(), *sd = s.displacements.data(), *sb = s.bytes.data();
    const int *rc = r.counts.data(), *rd = r.displacements.data(), *rb = r.bytes.data();
#define CALL(Name, name, ...)                                             \
    case k##Name:                                                         \
        return form == kBlocking      ? MPI_##Name(__VA_ARGS__)           \
               : form == kNonblocking ? MPI_I##name(__VA_ARGS__, request) \
                                      : INIT(Name)(__VA_ARGS__, info, request);
    switch (kind) {
        CALL(Alltoall, alltoall, from, s.count, s.type, to, r.count, r.type, comm)
        CALL(Alltoallv, alltoallv, from, sc, sd, s.type, to, rc, rd, r.type, comm)
        CALL(Alltoallw, alltoallw, from, sc, sb, s.types.data(), to, rc, rb, r.types.data(), comm)
        CALL(Allgather, allgather, from, s.count, s.type, to, r.count, r.type, comm)
        CALL(Allgatherv, allgatherv, from, s.count, s.type, to, rc, rd, r.type, comm)
        CALL(Bcast, bcast, to, r.count, r.type, root, comm)
        CALL(Gather, gather, from, s.count, s.type, to, r.count, r.type, root, comm)
        CALL(Gatherv, gatherv, from, s.count, s.type, to, rc, rd, r.type, root, comm)
        CALL(Scatter, scatter, from, s.count, s.type, to, r.count, r.type, root, comm)
        CALL(Scatterv, scatterv, from, sc, sd, s.type, to, r.count, r.type, root, comm)
        case kKinds:
            break;
    }
#undef CALL
    return MPI_ERR_OTHER;
}
