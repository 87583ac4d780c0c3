#include "scale/report.h"

#include <algorithm>

namespace longshore::scale {
namespace {

constexpr double kMega = 1e6;

void write_counts(FILE* file, const char* name, const MessageCounts& counts) {
    fprintf(file, "\"%s\": {\"control\": %llu, \"frames\": %llu, \"rows\": %llu, \"bytes\": %llu", name,
            static_cast<unsigned long long>(counts.control()), static_cast<unsigned long long>(counts.frames),
            static_cast<unsigned long long>(counts.rows), static_cast<unsigned long long>(counts.bytes));
    for (uint32_t k = 1; k <= kMessageKinds; ++k)
        if (counts.of_kind[k] != 0)
            fprintf(file, ", \"%s\": %llu", name_of(static_cast<MessageKind>(k)),
                    static_cast<unsigned long long>(counts.of_kind[k]));
    fprintf(file, "}");
}

}  // namespace

uint64_t Measured::pairs() const {
    if (rules_of(shape.collective).givers == Who::kRoot) return 0;  // the root is a rank of this node
    return uint64_t{shape.nodes - 1} * shape.ranks * (shape.ranks / shape.services);
}

const char* name_of(Entry entry) {
    static constexpr const char* kNames[] = {"together", "staggered", "last"};
    return kNames[static_cast<size_t>(entry)];
}

const char* name_of(Pace pace) {
    return pace == Pace::kInStep ? "in-step" : "early";
}

Measured measure(const Shape& shape, uint32_t operations) {
    World world(shape);
    Measured m;
    m.shape = shape;
    m.operations = operations;
    m.peers = uint64_t{shape.nodes - 1} * shape.services;
    m.node_bytes_of_a_rank = world.run().node_bytes_of_a_rank;
    struct Sample {
        ServiceResult service;
        double post_ns;
        uint64_t rounds;
    };
    std::vector<Sample> samples;
    for (uint32_t i = 0; i < operations; ++i) {
        const OperationResult result = world.run();
        const auto end = result.services.begin() + shape.services;  // of node 0
        const auto most = std::max_element(result.services.begin(), end, [](const auto& a, const auto& b) {
            return a.engine_ns() < b.engine_ns();
        });
        samples.push_back({*most, result.post_ns, result.rounds});
        m.rows_dropped = result.rows_dropped;
    }
    std::sort(samples.begin(), samples.end(),
              [](const Sample& a, const Sample& b) { return a.service.engine_ns() < b.service.engine_ns(); });
    const Sample& median = samples[samples.size() / 2];
    const ServiceResult& s = median.service;
    m.sent = s.sent;
    m.received = s.received;
    m.reads = s.reads;
    m.copies = s.copies;
    m.rounds = median.rounds;
    m.engine_ns = s.engine_ns();
    m.next_ns = s.next_ns;
    m.on_frame_ns = s.on_frame_ns;
    m.finish_ns = s.finish_ns;
    m.post_ns = median.post_ns;
    m.least_ns = samples.front().service.engine_ns();
    m.most_ns = samples.back().service.engine_ns();
    for (uint32_t k = 0; k < shape.services; ++k) {
        m.service_bytes = std::max(m.service_bytes, world.node(0).service_bytes_touched(k));
        m.service_bytes_mapped = world.node(0).service_bytes_mapped(k);
    }
    m.group_bytes = world.node(0).group_bytes();
    return m;
}

void print_head() {
    printf("%-11s %7s %6s %5s %3s %-9s %-8s %8s %8s %8s %9s %8s %8s %8s %7s %7s %6s\n", "collective",
           "block B", "nodes", "ranks", "SPs", "entry", "pace", "control", "frames", "reads", "engine ms",
           "ns/block", "us/peer", "SP MB", "B/rank", "group MB", "post us");
}

void print_line(const Measured& m) {
    printf(
        "%-11s %7llu %6u %5u %3u %-9s %-8s %8llu %8llu %8llu %9.3f %8.0f %8.2f %8.2f %7.1f %8.2f "
        "%7.1f\n",
        rules_of(m.shape.collective).name, static_cast<unsigned long long>(m.shape.block_bytes),
        m.shape.nodes, m.shape.ranks, m.shape.services, name_of(m.shape.entry), name_of(m.shape.pace),
        static_cast<unsigned long long>(m.control()),
        static_cast<unsigned long long>(m.sent.frames + m.received.frames),
        static_cast<unsigned long long>(m.reads), m.engine_ns / kMega, m.ns_per_block(),
        m.ns_per_peer() / 1000, static_cast<double>(m.service_bytes) / kMega,
        static_cast<double>(m.node_bytes_of_a_rank) / m.shape.size(),
        static_cast<double>(m.group_bytes) / kMega, m.post_ns / 1000);
    fflush(stdout);
}

void write_json(FILE* file, const Measured& m) {
    const ServiceLimits limits = m.shape.service_limits();
    fprintf(file,
            "{\"collective\": \"%s\", \"block_bytes\": %llu, \"nodes\": %u, \"ranks\": %u, \"services\": %u, "
            "\"real_nodes\": %u, \"entry\": \"%s\", \"pace\": \"%s\", \"rows_max\": %u, "
            "\"operations\": %u, ",
            rules_of(m.shape.collective).name, static_cast<unsigned long long>(m.shape.block_bytes),
            m.shape.nodes, m.shape.ranks, m.shape.services, m.shape.real_nodes, name_of(m.shape.entry),
            name_of(m.shape.pace), limits.rows_max, m.operations);
    write_counts(file, "sent", m.sent);
    fprintf(file, ", ");
    write_counts(file, "received", m.received);
    fprintf(
        file,
        ", \"control\": %llu, \"reads\": %llu, \"pairs\": %llu, \"peers\": %llu, "
        "\"copies\": %llu, "
        "\"rows_dropped\": %llu, \"rounds\": %llu, \"engine_ns\": %.0f, "
        "\"engine_least_ns\": %.0f, \"engine_most_ns\": %.0f, \"next_ns\": %.0f, \"on_frame_ns\": %.0f, "
        "\"finish_ns\": %.0f, \"post_ns\": %.0f, \"service_bytes\": %llu, \"service_bytes_mapped\": %llu, "
        "\"node_bytes_of_a_rank\": %llu, \"group_bytes\": %llu}\n",
        static_cast<unsigned long long>(m.control()), static_cast<unsigned long long>(m.reads),
        static_cast<unsigned long long>(m.pairs()), static_cast<unsigned long long>(m.peers),
        static_cast<unsigned long long>(m.copies), static_cast<unsigned long long>(m.rows_dropped),
        static_cast<unsigned long long>(m.rounds), m.engine_ns, m.least_ns, m.most_ns, m.next_ns,
        m.on_frame_ns, m.finish_ns, m.post_ns, static_cast<unsigned long long>(m.service_bytes),
        static_cast<unsigned long long>(m.service_bytes_mapped),
        static_cast<unsigned long long>(m.node_bytes_of_a_rank),
        static_cast<unsigned long long>(m.group_bytes));
    fflush(file);
}

}  // namespace longshore::scale
