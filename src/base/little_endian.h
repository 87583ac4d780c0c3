// Fields of what crosses machines: little-endian, whatever the machine, without padding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/types.h"

namespace longshore {

// Writes fields into a buffer. ok(): all had room.
class Writer {
  public:
    Writer(std::byte* at, size_t room) : at_(at), room_(room) {}
    template <class T>
    void put(T value) {
        if (sizeof(T) > room_ - used_) {
            ok_ = false;
            return;
        }
        for (size_t i = 0; i < sizeof(T); ++i)
            at_[used_ + i] = static_cast<std::byte>(uint64_t{value} >> (8 * i));
        used_ += sizeof(T);
    }
    void put_bytes(std::span<const std::byte> bytes) {
        if (bytes.size() > room_ - used_) {
            ok_ = false;
            return;
        }
        if (!bytes.empty()) memcpy(at_ + used_, bytes.data(), bytes.size());
        used_ += bytes.size();
    }
    bool ok() const { return ok_; }
    size_t used() const { return used_; }

  private:
    std::byte* at_;
    size_t room_, used_ = 0;
    bool ok_ = true;
};

// Reads them back. Past the end every field is zero, and ok() is false.
class Reader {
  public:
    explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
    template <class T>
    T get() {
        if (rest_.size() < sizeof(T)) {
            ok_ = false;
            rest_ = {};
            return T{};
        }
        uint64_t value = 0;
        for (size_t i = 0; i < sizeof(T); ++i) value |= uint64_t{static_cast<uint8_t>(rest_[i])} << (8 * i);
        rest_ = rest_.subspan(sizeof(T));
        return static_cast<T>(value);
    }
    std::span<const std::byte> get_bytes(size_t n) {
        if (rest_.size() < n) {
            ok_ = false;
            rest_ = {};
            return {};
        }
        const auto bytes = rest_.first(n);
        rest_ = rest_.subspan(n);
        return bytes;
    }
    bool ok() const { return ok_; }
    std::span<const std::byte> rest() const { return rest_; }

  private:
    std::span<const std::byte> rest_;
    bool ok_ = true;
};

inline void put_address(Writer& w, const ServiceAddress& a) {
    w.put(a.node.value);
    w.put(a.service.value);
}

inline ServiceAddress get_address(Reader& r) {
    ServiceAddress a;
    a.node = NodeId{r.get<uint16_t>()};
    a.service = ServiceId{r.get<uint16_t>()};
    return a;
}

}  // namespace longshore
