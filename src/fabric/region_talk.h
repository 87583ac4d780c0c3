// What service processes of different nodes say to each other of regions: requests for descriptors, answers
// from the memory of this node, and what comes of either for the directory. Keeps: what has not been sent
// yet, by peer, bounded; who has been heard in which incarnation. Promises: a request that waits already is
// not taken twice. Asks: a way to send frames. One thread.
#pragma once

#include <deque>
#include <map>

#include "fabric/fabric.h"
#include "fabric/region_directory.h"
#include "fabric/region_frame.h"

namespace longshore {

class RegionTalk {
  public:
    // Answers to one peer that wait to be sent; it asks again for what is beyond.
    static constexpr size_t kAnswersMax = 1024;

    // `staging`: the descriptor of this service process's staging memory, which outlives this.
    RegionTalk(const NodeMemory& memory, ServiceAddress self, uint32_t incarnation,
               std::span<const std::byte> staging)
        : memory_(memory), self_(self), incarnation_(incarnation), staging_(staging) {}

    // What the directory wants to be asked.
    void ask_for(RegionDirectory& directory);
    // Takes a message if it is one of regions; false: it is for others. What is no frame, or of no service
    // that is known, is left to them, too: who gets it last counts it.
    bool take(const FabricEvent& message, RegionDirectory& directory);
    // Nobody is there any more to hear it.
    void drop(ServiceAddress peer) { lines_.erase(peer); }
    bool empty() const { return lines_.empty(); }
    // What `to` (all: what anybody) takes now. `send`: (peer, frame) gives Post::kAccepted, or is asked again
    // later.
    template <class Send>
    void flush(ServiceAddress to, const Send& send) {
        const auto line = lines_.find(to);
        if (line != lines_.end() && flush(*line, send)) lines_.erase(line);
    }
    template <class Send>
    void flush_all(const Send& send) {
        for (auto line = lines_.begin(); line != lines_.end();)
            line = flush(*line, send) ? lines_.erase(line) : std::next(line);
    }

    struct Counts {
        uint64_t refused = 0;  // frames that are not as they should be
        uint64_t stale = 0;    // frames of a former self of their sender
        uint64_t unasked = 0;  // answers that nobody waits for (any more)
    };
    const Counts& counts() const { return counts_; }

  private:
    void take_notices(ServiceAddress from, std::span<const std::byte> frame, RegionDirectory& directory);
    struct Due {
        RegionNoticeKind kind;
        RegionName name;
        bool operator==(const Due&) const = default;
    };
    using Line = std::pair<const ServiceAddress, std::deque<Due>>;
    // Whether nothing is left.
    template <class Send>
    bool flush(Line& line, const Send& send) {
        while (!line.second.empty()) {
            std::byte buffer[kFrameBytesMax];
            size_t count = 0;
            const auto frame = fill(line.second, buffer, &count);
            if (send(line.first, frame) == Post::kAgain) return false;
            line.second.erase(line.second.begin(), line.second.begin() + static_cast<ptrdiff_t>(count));
        }
        return true;
    }
    std::span<const std::byte> fill(const std::deque<Due>& due, std::span<std::byte> buffer,
                                    size_t* count) const;
    std::span<const std::byte> describe(const RegionName& name,
                                        std::span<std::byte, kDescriptorBytesMax> copy) const;

    const NodeMemory memory_;
    const ServiceAddress self_;
    const uint32_t incarnation_;
    const std::span<const std::byte> staging_;
    std::map<ServiceAddress, std::deque<Due>> lines_;  // of peers that something is to be said to
    std::map<ServiceAddress, uint32_t> incarnations_;  // the newest heard of
    Counts counts_;
};

}  // namespace longshore
