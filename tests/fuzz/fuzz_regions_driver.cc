// Steps of a world of regions: reads, and frames that are mostly well formed and about what is read.
#include <algorithm>
#include <cstring>
#include <vector>

#include "driver.h"
#include "fabric/region_frame.h"

namespace {

using namespace longshore;

void add_frame(Prng& r, std::vector<uint8_t>* out) {
    std::byte buffer[kFrameBytesMax], descriptor[kDescriptorBytesMax] = {};
    RegionFrameWriter writer(buffer, {}, 1);
    for (uint64_t n = r.below(6); n > 0; --n) {
        RegionNotice notice;
        notice.kind = r.chance(700) ? RegionNoticeKind::kDescribe : RegionNoticeKind::kAsk;
        const auto what = static_cast<uint32_t>(r.below(48));
        notice.name = {what % 4 == 3 ? kStaging : LocalRank{static_cast<uint16_t>(what % 4)},
                       RegionId{what / 4 % 4}, what / 16};
        if (r.chance(50)) notice.name.region = RegionId{static_cast<uint32_t>(r.next())};
        notice.descriptor = {descriptor, r.chance(300) ? 0 : r.below(30)};
        if (!writer.add(notice)) break;
    }
    const auto frame = writer.finish().subspan(kFrameHeaderBytes);
    std::vector<uint8_t> bytes(frame.size());
    if (!bytes.empty()) memcpy(bytes.data(), frame.data(), frame.size());
    if (bytes.size() > 255) bytes.resize(255);
    for (uint64_t n = r.chance(300) && !bytes.empty() ? r.below(4) : 0; n > 0; --n)
        bytes[r.below(bytes.size())] ^= static_cast<uint8_t>(r.next());
    const auto from = static_cast<uint8_t>(r.between(2, 5));
    out->push_back(1);
    const uint64_t incarnation = r.chance(900) ? 1 : r.below(4);
    out->push_back(
        static_cast<uint8_t>((r.chance(950) ? 128 : 0) + 16 * incarnation + (r.chance(300) ? 8 : 0) + from));
    out->push_back(static_cast<uint8_t>(bytes.size()));
    out->insert(out->end(), bytes.begin(), bytes.end());
}

}  // namespace

int main(int argc, char** argv) {
    const auto driven = fuzz::drive(argc, argv, 3, [](Prng& random) {
        std::vector<uint8_t> input;
        for (uint64_t n = random.between(1, 60); n > 0; --n) {
            if (random.chance(300)) {
                add_frame(random, &input);
            } else if (random.chance(400)) {
                input.insert(input.end(), {0, static_cast<uint8_t>(random.between(2, 5)),
                                           static_cast<uint8_t>(random.below(48))});
            } else {
                input.push_back(static_cast<uint8_t>(random.between(3, 7)));
                input.push_back(static_cast<uint8_t>(random.next()));
                if (input[input.size() - 2] == 7 && input.back() % 8 == 0)
                    input.push_back(static_cast<uint8_t>(random.next()));
                if (input[input.size() - 2] == 6) input.pop_back();
            }
        }
        return input;
    });
    printf("%llu inputs\n", static_cast<unsigned long long>(driven.inputs));
    return 0;
}
