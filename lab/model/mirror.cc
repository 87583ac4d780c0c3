#include "model/mirror.h"

#include <algorithm>

namespace longshore::timed {
namespace {

scale::Shape shape_of(const Job& job) {
    scale::Shape shape;
    shape.nodes = job.nodes;
    shape.ranks = job.ranks_per_node;
    shape.services = job.services;
    shape.collective = job.collective;
    shape.block_bytes = job.block_bytes;
    shape.equal = shape.repeats = true;
    return shape;
}

}  // namespace

Mirror::Mirror(const Job& job) : workload_(shape_of(job)), model_(shape_of(job), workload_) {}

scale::FrameQueue& Mirror::say(ServiceAddress from, ServiceAddress to, std::span<const std::byte> frame) {
    frame_.from = from;
    frame_.to = to;
    frame_.length = static_cast<uint32_t>(frame.size());
    std::copy(frame.begin(), frame.end(), frame_.bytes.begin());
    said_.clear();
    model_.on_frame(frame_, 0, &said_);
    return said_;
}

}  // namespace longshore::timed
