// What was measured of one shape, as a line of a table and as a line of JSON.
#pragma once

#include <cstdio>

#include "scale/world.h"

namespace longshore::scale {

// Of the service process of node 0 that spent most time in the engine; medians over operations.
struct Measured {
    Shape shape;
    uint32_t operations = 0;
    MessageCounts sent, received;  // of the operation whose time is the median
    uint64_t reads = 0, peers = 0, copies = 0, rounds = 0, rows_dropped = 0;
    double engine_ns = 0, least_ns = 0, most_ns = 0;  // of one operation
    double next_ns = 0, on_frame_ns = 0, finish_ns = 0, post_ns = 0;
    uint64_t service_bytes = 0, service_bytes_mapped = 0, node_bytes_of_a_rank = 0, group_bytes = 0;

    uint64_t control() const { return sent.control() + received.control(); }
    // Blocks that the service process's ranks receive from other nodes. A shared one is read once, and
    // copied.
    uint64_t pairs() const;
    double ns_per_block() const { return pairs() == 0 ? 0 : engine_ns / static_cast<double>(pairs()); }
    double ns_per_peer() const { return engine_ns / static_cast<double>(peers); }
};

// Runs `operations` of them after a first one, which is not counted: memory is touched for the first time in
// it.
Measured measure(const Shape& shape, uint32_t operations);

const char* name_of(Entry entry);
const char* name_of(Pace pace);
void print_head();
void print_line(const Measured& m);
void write_json(FILE* file, const Measured& m);

}  // namespace longshore::scale
