// Makes a fabric that reads by names of one that reads by descriptors. A read of a region that is not known
// yet waits here; its owner is asked how it is to be found (frames of the service kRegions, which nobody else
// sees), and what was imported is kept for the next reads as long as there is room. Answers what others ask
// of this node's memory. All else is the inner fabric's business. One thread.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "fabric/importing_fabric.h"
#include "fabric/region_directory.h"
#include "fabric/region_talk.h"

namespace longshore {

struct DescribedOptions {
    NodeMemory memory;
    ServiceAddress self;
    uint32_t incarnation = 1;
    uint32_t regions_max = 4096;  // of other nodes, kept for the next read
};

class DescribedFabric : public Fabric {
  public:
    DescribedFabric(const DescribedOptions& options, std::unique_ptr<ImportingFabric> inner)
        : DescribedFabric(options, *inner) {
        owned_ = std::move(inner);
    }
    // `inner` is borrowed. The caller's ids of copies and writes leave kReadBit alone.
    DescribedFabric(const DescribedOptions& options, ImportingFabric& inner)
        : inner_(inner),
          directory_(options.regions_max),
          talk_(options.memory, options.self, options.incarnation, inner.staging_descriptor()) {}
    static constexpr uint64_t kReadBit = uint64_t{1} << 62;

    Post send(ServiceAddress to, std::span<const std::byte> message) override;
    Post copy(const MemoryRef& from, const MemoryRef& to, uint64_t bytes, uint64_t id,
              uint64_t working_set = 0) override {
        return inner_.copy(from, to, bytes, id, working_set);
    }
    Post read(ServiceAddress owner, const RegionName& region, uint64_t offset, const MemoryRef& to,
              uint64_t bytes, uint64_t id, const AlongPart* part = nullptr) override;
    bool sends_along() const override { return inner_.sends_along(); }
    void send_along(ServiceAddress to, const BlockName& block, const RegionName& region, uint64_t offset,
                    uint64_t bytes) override {
        inner_.send_along(to, block, region, offset, bytes);
    }
    Post write(std::span<const std::byte> from, const MemoryRef& to, uint64_t id) override {
        return inner_.write(from, to, id);
    }
    size_t poll(std::span<FabricEvent> events, uint64_t wait_ns) override;
    void wake(const WakeSet& sleepers) override { inner_.wake(sleepers); }
    void on_tick() override;
    FabricCounters counters() const override;
    std::string take_problem() override { return inner_.take_problem(); }

    // poll() has more to say or to do at once, whatever the inner fabric has.
    bool busy() const { return !done_.empty() || !imports_.empty() || !ready_.empty() || !talk_.empty(); }
    const RegionDirectory::Counts& regions() const { return directory_.counts(); }
    const RegionTalk::Counts& talk() const { return talk_.counts(); }

  private:
    struct Read {
        uint32_t place = 0;  // of its region in the directory
        uint64_t offset = 0, bytes = 0, id = 0;
        MemoryRef to;
        bool has_part = false;
        AlongPart part;
    };
    Post post(uint32_t read);
    void end(uint32_t read, MoveResult result);
    void give(uint32_t read);
    void advance();
    bool take_event(FabricEvent& event);

    std::unique_ptr<ImportingFabric> owned_;
    ImportingFabric& inner_;
    RegionDirectory directory_;
    RegionTalk talk_;
    std::vector<Read> reads_;
    std::vector<uint32_t> free_reads_;
    // What the inner fabric had no room for: places whose descriptors are to be imported; reads.
    std::deque<uint32_t> imports_, ready_;
    std::deque<FabricEvent> done_;
};

}  // namespace longshore
