#include "fabric/descriptors.h"

#include <sys/resource.h>

namespace longshore {
namespace {

constexpr uint64_t kOfEveryProcess = 64, kStrangers = 64;

constexpr const char* kAdvice = ": raise it (ulimit -Hn; LimitNOFILE= of the service that starts jobs)";

uint64_t limit_now() {
    rlimit files{};
    return getrlimit(RLIMIT_NOFILE, &files) == 0 ? uint64_t{files.rlim_cur} : UINT64_MAX;
}

}  // namespace

uint64_t raise_descriptor_limit() {
    rlimit files{};
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) return UINT64_MAX;
    if (files.rlim_cur != files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    return limit_now();
}

uint64_t descriptors_of_service(uint32_t nodes, uint32_t services_per_node, bool by_tcp) {
    constexpr uint64_t kOfStreams = 2, kOfNeighbour = 3;
    const uint64_t others = uint64_t{nodes - 1} * services_per_node;
    return (by_tcp ? kOfStreams : kOfNeighbour) * others + (kOfNeighbour + 1) * services_per_node +
           kStrangers + kOfEveryProcess;
}

uint64_t descriptors_of_supervisor(uint32_t ranks, uint32_t services) {
    return 2 * uint64_t{ranks} + 4 * uint64_t{services} + kStrangers + kOfEveryProcess;
}

std::string too_few_descriptors(const std::string& who, uint64_t limit, uint64_t needed) {
    return who + " needs up to " + std::to_string(needed) +
           " open files, and the hard limit of open files (RLIMIT_NOFILE) is " + std::to_string(limit) +
           kAdvice;
}

std::string no_descriptor_left(const std::string& who) {
    return who + " has as many open files as the limit of open files (RLIMIT_NOFILE) allows, " +
           std::to_string(limit_now()) + ", and needs more for its connections" + kAdvice;
}

}  // namespace longshore
