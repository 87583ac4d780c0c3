// What a fabric knows of the regions that it has imported, by handle.
#pragma once

#include <vector>

#include "fabric/region_directory.h"

namespace longshore {

template <class Region>
class ImportTable {
  public:
    // 0: there are too many.
    ImportHandle add(const Region& region) {
        if (free_.empty()) {
            if (entries_.size() >= kMax) return 0;
            entries_.push_back({region, true});
            return entries_.size();
        }
        const ImportHandle handle = free_.back();
        free_.pop_back();
        entries_[handle - 1] = {region, true};
        return handle;
    }
    // Null: there is none of that handle. Valid until the next add().
    const Region* find(ImportHandle handle) const {
        return handle - 1 < entries_.size() && entries_[handle - 1].used ? &entries_[handle - 1].region
                                                                         : nullptr;
    }
    void forget(ImportHandle handle) {
        if (find(handle) == nullptr) return;
        entries_[handle - 1].used = false;
        free_.push_back(handle);
    }

  private:
    static constexpr size_t kMax = 1u << 20;
    struct Entry {
        Region region;
        bool used = false;
    };
    std::vector<Entry> entries_;
    std::vector<ImportHandle> free_;
};

}  // namespace longshore
