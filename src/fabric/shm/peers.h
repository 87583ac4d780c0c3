// The processes whose memory a NodeCopier moves: each looked up once, and what it shares mapped here. One
// thread.
#pragma once

#include <memory>
#include <vector>

#include "fabric/shm/region.h"
#include "fabric/shm/system.h"

namespace longshore {

class Peers {
  public:
    // False: that process is gone, its pid perhaps another's.
    bool is_there(const ProcessSpan& span);

    // Where bytes at `offset` of the span's shared part lie in this process. Null: they cannot be mapped; or,
    // unless `at_once`, it is not worth it yet. A page costs more to map than to copy once by way of the
    // system, so that pages are mapped when so much has been moved that it would have paid.
    std::byte* find_shared(const ProcessSpan& span, uint64_t offset, uint64_t bytes, bool write,
                           bool at_once);

  private:
    struct Peer {
        uint32_t pid = 0;
        uint64_t start_time = 0;
        uint64_t identity = 0;  // of the file that is, or could not be, mapped
        Mapping memory;
        Mapping moved;  // Moved[] by piece
    };
    struct Moved {
        uint8_t read, written;  // pages, not counted further than kReadPagesMin and kWrittenPagesMin
    };
    Peer* find(const ProcessSpan& span);
    static bool is_worth(Peer& peer, uint64_t file_offset, uint64_t bytes, bool write);
    static void map_file(Peer& peer, const ProcessSpan& span);

    std::vector<std::unique_ptr<Peer>>
        peers_;  // by pid, with a few probes; a newer one takes the place of an older
};

}  // namespace longshore
