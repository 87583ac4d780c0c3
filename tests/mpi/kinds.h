// The collectives of the families, for programs that go through all of them.
#pragma once

enum Kind {
    kAlltoall,
    kAlltoallv,
    kAlltoallw,
    kAllgather,
    kAllgatherv,
    kBcast,
    kGather,
    kGatherv,
    kScatter,
    kScatterv,
    kKinds
};

inline bool gathers(Kind kind) {
    return kind == kGather || kind == kGatherv;
}
inline bool scatters(Kind kind) {
    return kind == kScatter || kind == kScatterv;
}
// A block of its own for each receiver.
inline bool to_each(Kind kind) {
    return kind <= kAlltoallw || scatters(kind);
}
