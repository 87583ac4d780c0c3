// Frames for peers whose rings are full: what is for one stays in order, and holds up nothing that is for
// another.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "base/types.h"
#include "fabric/fabric.h"

namespace longshore {

class FrameQueue {
  public:
    // Of one peer. One that is gone takes none until that is known, and is told again and again meanwhile.
    static constexpr size_t kFramesMax = 1024;

    bool empty() const { return lines_.empty(); }
    bool has(ServiceAddress to) const { return find(to) != nullptr; }
    // False: there are too many for that peer.
    bool push(ServiceAddress to, std::span<const std::byte> frame) {
        Line* line = find(to);
        if (line == nullptr) line = &lines_.emplace_back(Line{to, {}});
        if (line->frames.size() >= kFramesMax) return false;
        line->frames.emplace_back(frame.begin(), frame.end());
        return true;
    }
    // What the peers take now. `send`: (peer, frame) gives Post::kAccepted, or else is asked again later.
    // Returns whether any was taken.
    template <class Send>
    bool flush(const Send& send) {
        bool sent = false;
        for (Line& line : lines_) {
            for (; !line.frames.empty() && send(line.to, line.frames.front()) == Post::kAccepted; sent = true)
                line.frames.pop_front();
        }
        std::erase_if(lines_, [](const Line& line) { return line.frames.empty(); });
        return sent;
    }
    void drop(ServiceAddress to) {
        std::erase_if(lines_, [&](const Line& line) { return line.to == to; });
    }

  private:
    struct Line {
        ServiceAddress to;
        std::deque<std::vector<std::byte>> frames;
    };
    const Line* find(ServiceAddress to) const {
        for (const Line& line : lines_)
            if (line.to == to) return &line;
        return nullptr;
    }
    Line* find(ServiceAddress to) { return const_cast<Line*>(std::as_const(*this).find(to)); }

    std::vector<Line> lines_;  // of peers that have any
};

}  // namespace longshore
