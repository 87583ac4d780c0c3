#include "dpu/card/post_check.h"

#include <algorithm>

#include "engine/collective.h"

namespace longshore {
namespace {

// One of the two buffers.
struct Side {
    bool there;  // this rank has it
    Blocks blocks;
    bool by_vector;
    uint64_t block_bytes, bytes;
    const std::vector<BlockSpan>& spans;
    uint32_t region;
    uint64_t offset, carried;  // bytes that came with the message
};

// Its size and its blocks are what the collective has there.
bool has_its_shape(const Side& s, uint32_t size) {
    if (!s.there) return s.block_bytes == 0 && s.bytes == 0 && s.spans.empty();
    if (s.by_vector && s.blocks == Blocks::kPerRank) {
        if (s.block_bytes != 0 || s.spans.size() != size) return false;
        return std::all_of(s.spans.begin(), s.spans.end(), [&](const BlockSpan& span) {
            return span.bytes == 0 || (span.offset <= s.bytes && span.bytes <= s.bytes - span.offset);
        });
    }
    uint64_t whole = 0;
    return s.spans.empty() &&
           !__builtin_mul_overflow(s.block_bytes, s.blocks == Blocks::kOne ? 1 : uint64_t{size}, &whole) &&
           whole == s.bytes;
}

// It lies in a region that the rank has opened, or in none.
bool lies_within(const Side& s, std::span<const uint64_t> region_bytes) {
    if (s.bytes > INT64_MAX) return false;
    // The stand-in's own memory, where small data are put for the rank.
    if (s.region == 0) return s.offset == 0 && s.carried == s.bytes;
    if (s.carried != 0) return false;
    // One that could not be opened has a number that none has: all who need it get an error.
    if (s.region == region_bytes.size()) return s.offset == 0;
    if (s.region > region_bytes.size()) return false;
    const uint64_t all = region_bytes[s.region];
    return s.offset <= all && s.bytes <= all - s.offset;
}

}  // namespace

bool is_sound(const SessionPost& post, Rank rank, uint32_t size, std::span<const uint64_t> region_bytes) {
    if (post.collective >= kCollectives || post.algorithm > static_cast<uint8_t>(Algorithm::kStaged) ||
        post.root >= size || rank.value >= size)
        return false;
    const CollectiveRules& rules = rules_of(static_cast<Collective>(post.collective));
    const Rank root{post.root};
    const bool gives = rules.gives(rank, root), takes = rules.takes(rank, root);
    if (post.self_in_place && !(gives && takes)) return false;
    if (post.copies != SessionCopies::kNever && !rules.is_shared) return false;
    // In place, the one block that a root takes is its own, and stays where it is.
    const bool keeps = post.self_in_place && rules.taken == Blocks::kOne;
    const Side sent{gives,           rules.given,      rules.by_vector,  post.send_block_bytes,
                    post.send_bytes, post.send_blocks, post.send_region, post.send_offset,
                    post.data.size()};
    const Side received{takes && !keeps,       rules.taken,      rules.by_vector,
                        post.recv_block_bytes, post.recv_bytes,  post.recv_blocks,
                        post.recv_region,      post.recv_offset, 0};
    return has_its_shape(sent, size) && has_its_shape(received, size) && lies_within(sent, region_bytes) &&
           lies_within(received, region_bytes);
}

}  // namespace longshore
