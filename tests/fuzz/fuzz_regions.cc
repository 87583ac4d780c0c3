// Reads by names over a fabric that reads by descriptors, while service processes of other nodes say of
// regions whatever they like, and any of that fabric's moves succeed or fail: each read ends once, nothing is
// forgotten that is still read, and what cannot be decoded changes nothing. libFuzzer's entry point;
// fuzz_regions_driver.cc calls it where there is none.
#include <stdlib.h>

#include <memory>
#include <optional>

#include "played_fabric.h"

namespace {

using namespace longshore;
using longshore::test::PlayedFabric;
using longshore::test::PlayedNode;

void require(bool condition) {
    if (!condition) abort();
}

struct Input {
    const uint8_t* data;
    size_t size;
    uint8_t byte() {
        if (size == 0) return 0;
        --size;
        return *data++;
    }
    std::span<const uint8_t> bytes(size_t n) {
        n = std::min(n, size);
        const std::span<const uint8_t> out(data, n);
        data += n;
        size -= n;
        return out;
    }
};

ServiceAddress address(uint8_t byte) {
    return {NodeId{static_cast<uint16_t>(byte / 2 % 3)}, ServiceId{static_cast<uint16_t>(byte % 2)}};
}

class World {
  public:
    World() {
        DescribedOptions options;
        options.memory = node_.memory;
        options.regions_max = 3;
        fabric_.emplace(options, inner_);
    }
    void step(Input& input) {
        switch (input.byte() % 8) {
            case 0:
                return read(input.byte(), input.byte());
            case 1:
            case 2:
                return hear(input);
            case 3:
                if (!inner_.imports.empty()) inner_.end_import(input.byte() % 4 != 0);
                return;
            case 4:
                if (!inner_.reads.empty())
                    inner_.end_read(input.byte() % 4 != 0 ? MoveResult::kMoved : MoveResult::kFailed);
                return;
            case 5:
                inner_.full = input.byte() % 4 == 0;
                return;
            case 6:
                fabric_->on_tick();
                return;
            case 7:
                if (input.byte() % 8 == 0) inner_.lose(address(input.byte()));
                poll();
                return;
        }
    }
    // Whatever happened, what is under way ends when all owners are gone and all moves have ended.
    void end() {
        inner_.full = false;
        for (uint8_t i = 0; i < 6; ++i) inner_.lose(address(i));
        for (int i = 0; i < 8; ++i) {
            while (!inner_.imports.empty()) inner_.end_import(i % 2 == 0);
            while (!inner_.reads.empty()) inner_.end_read(MoveResult::kMoved);
            for (int k = 0; k < 64; ++k) poll();
        }
        for (const bool ended : ended_) require(ended);
        require(fabric_->regions().reads == 0 && !fabric_->busy() && inner_.imported.empty());
    }

  private:
    void read(uint8_t owner, uint8_t what) {
        const RegionName name{what % 4 == 3 ? kStaging : LocalRank{static_cast<uint16_t>(what % 4)},
                              RegionId{what / 4 % 4u}, what / 16u % 3};
        if (fabric_->read(address(owner), name, 0, {}, 8, ended_.size()) == Post::kAccepted)
            ended_.push_back(false);
    }
    // A frame as it comes, or with a header that is as it should be. In a copy of its own size: a sanitizer
    // sees every byte beyond it.
    void hear(Input& input) {
        const uint8_t flags = input.byte();
        const ServiceAddress from = address(flags % 8);
        const auto body = input.bytes(input.byte());
        const bool whole = (flags & 128) != 0;
        const size_t bytes = body.size() + (whole ? kFrameHeaderBytes : 0);
        const std::unique_ptr<std::byte[]> copy(new std::byte[bytes]);
        if (whole) {
            Writer w(copy.get(), bytes);
            put_header(w, {WireService::kRegions, from, uint32_t{flags} / 16 % 4});
        }
        std::copy_n(reinterpret_cast<const std::byte*>(body.data()), body.size(),
                    copy.get() + bytes - body.size());
        std::span<const std::byte> frame(copy.get(), bytes);
        if (whole) frame = finish_frame({copy.get(), bytes});
        RegionFrameReader reader;
        FrameHeader header;
        if (reader.start(frame, &header))
            for (RegionNotice n; reader.next(&n) == RegionFrameReader::Result::kNotice;)
                require(n.descriptor.size() <= kDescriptorBytesMax);
        inner_.deliver(from, frame);
        if ((flags & 8) == 0) poll();
    }
    void poll() {
        FabricEvent events[5];
        const size_t count = fabric_->poll(events, 0);
        require(count <= 5);
        for (size_t i = 0; i < count; ++i) {
            require(events[i].kind != FabricEvent::Kind::kImported);
            if (events[i].kind != FabricEvent::Kind::kMoved) continue;
            require(events[i].id < ended_.size() && !ended_[events[i].id]);
            ended_[events[i].id] = true;
        }
        // What others hear can be read by them.
        for (; !inner_.frames.empty(); inner_.frames.pop_front()) {
            RegionFrameReader reader;
            FrameHeader header;
            require(reader.start(inner_.frames.front().bytes, &header));
            RegionNotice notice;
            RegionFrameReader::Result result;
            while ((result = reader.next(&notice)) == RegionFrameReader::Result::kNotice) {
            }
            require(result == RegionFrameReader::Result::kEnd);
        }
    }
    PlayedNode node_{NodeId{0}};
    PlayedFabric inner_;
    std::optional<DescribedFabric> fabric_;
    std::vector<bool> ended_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    World world;
    Input input{data, size};
    while (input.size != 0) world.step(input);
    world.end();
    return 0;
}
