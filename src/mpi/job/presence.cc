#include "mpi/job/presence.h"

#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/prng.h"
#include "fabric/shm/system.h"
#include "mpi/shim.h"

namespace longshore::mpi {
namespace {

constexpr char kPresentKey[] = "longshore";
constexpr int kDecisionTag = 32'000;  // below MPI's smallest MPI_TAG_UB (32767)
constexpr uint64_t kDecisionLimitNs = 300'000'000'000;

enum Decision : int { kEveryRank = 1, kSomeRanks = 2, kOtherBuilds = 3 };

void say_mixed() {
    say(LogLevel::kWarn, "some ranks of this job run without Longshore: plain MPI for all");
}

// What ranks exchange from here on, settings first, is understood by the same build alone. The key and the
// decision are what every build must understand.
std::string own_build() {
    if (const char* other = getenv("LONGSHORE_INTERNAL_BUILD")) return other;
    char text[64];
    snprintf(text, sizeof text, "%s-%08x", LONGSHORE_VERSION,
             static_cast<uint32_t>(mix64(ls_layout() ^ sizeof(Settings)) >> 32));
    return text;
}

// What a rank puts under kPresentKey: BUILD@HOST.
std::string own_presence() {
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    return own_build() + "@" + host;
}

void say_other_build(int rank, const std::string& presence) {
    const size_t at = presence.find('@');
    const std::string host = at == presence.npos ? "" : " (" + presence.substr(at + 1) + ")";
    say(LogLevel::kWarn, "rank " + std::to_string(rank) + host + " runs another build of Longshore, " +
                             presence.substr(0, at) + ", than rank 0, " + own_build() +
                             ": plain MPI for all; put the same one on all nodes");
}

// Rank 0 asks the key space who is there and tells those; they are all still in MPI_Init, so on
// MPI_COMM_WORLD a receive from rank 0 matches nothing else, and nothing is sent to a rank without the shim.
bool tell_decision(KeySpace& space) {
    const std::string own = own_build();
    std::vector<int> present;
    int other = 0;  // the first rank of another build; 0: none
    std::string presence, other_presence;
    for (int r = 1; r < shim().size; ++r) {
        if (!space.get(static_cast<uint32_t>(r), kPresentKey, &presence)) continue;
        present.push_back(r);
        if (other != 0 || presence.substr(0, presence.find('@')) == own) continue;
        other = r;
        other_presence = presence;
    }
    int decision = static_cast<int>(present.size()) < shim().size - 1 ? kSomeRanks
                   : other != 0                                       ? kOtherBuilds
                                                                      : kEveryRank;
    for (int r : present) PMPI_Send(&decision, 1, MPI_INT, r, kDecisionTag, MPI_COMM_WORLD);
    if (decision == kSomeRanks) say_mixed();
    if (decision == kOtherBuilds) say_other_build(other, other_presence);
    return decision == kEveryRank;
}

bool hear_decision(KeySpace& space) {
    std::string presence;
    if (!space.get(0, kPresentKey, &presence)) {
        // Rank 0 cannot say it; the first rank after a row of ranks without the shim does.
        const auto before = static_cast<uint32_t>(shim().rank) - 1;
        if (before == 0 || !space.get(before, kPresentKey, &presence)) say_mixed();
        return false;
    }
    // Rank 0 is there and will answer: what we have put it finds. A limit is for launchers that do not keep
    // to that.
    int decision = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    PMPI_Irecv(&decision, 1, MPI_INT, 0, kDecisionTag, MPI_COMM_WORLD, &request);
    const uint64_t end = awake_ns() + kDecisionLimitNs;
    for (int done = 0; !done;) {
        if (PMPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || (!done && awake_ns() > end))
            end_job(
                "has not heard from rank 0 whether Longshore carries this job (LONGSHORE_OFFLOAD=off does "
                "without)");
        if (done) break;
        sched_yield();
    }
    return decision == kEveryRank;
}

}  // namespace

bool put_presence(KeySpace& space) {
    return space.put(kPresentKey, own_presence());
}

bool is_presence_published(KeySpace& space) {
    return space.published(kPresentKey);
}

bool all_are_present(KeySpace& space) {
    return shim().rank == 0 ? tell_decision(space) : hear_decision(space);
}

}  // namespace longshore::mpi
