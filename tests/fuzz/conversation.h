// For fuzzers that play one side of a conversation: what they choose comes from the fuzzer's input, so that
// what mutates the input mutates the conversation. Messages are well formed first, and then damaged now and
// then.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

namespace longshore::fuzz {

inline void require(bool condition) {
    if (!condition) abort();
}

class Choices {
  public:
    Choices(const uint8_t* data, size_t size) : data_(data), end_(data + size) {}
    bool over() const { return data_ == end_; }
    // 0 when the input is over.
    uint8_t byte() { return over() ? uint8_t{0} : *data_++; }
    uint32_t below(uint32_t bound) { return (byte() | uint32_t{byte()} << 8) % bound; }
    bool one_in(uint32_t n) { return byte() % n == n - 1; }
    // One that is likely to matter: small, about a power of two, or the largest of a type.
    uint64_t number() {
        const uint8_t how = byte();
        switch (how % 6) {
            case 0:
            case 1:
                return how / 6;
            case 2:
                return (uint64_t{1} << (how / 6 + 20)) + byte() % 3 - 1;
            case 3:
                return (uint64_t{1} << (how / 6)) + byte() % 3 - 1;
            case 4:
                return UINT64_MAX - byte();
            default:
                return UINT32_MAX - uint64_t{byte()};
        }
    }

  private:
    const uint8_t *data_, *end_;
};

// Mostly as it is; else one field is another number, it is cut or too long.
inline void damage(Choices& choices, std::vector<std::byte>* message) {
    if (!choices.one_in(12)) return;
    switch (choices.byte() % 4) {
        case 0:
            message->resize(choices.below(static_cast<uint32_t>(message->size()) + 1));
            break;
        case 1:
            message->resize(message->size() + 1 + choices.byte());
            break;
        default: {
            const size_t bytes = size_t{1} << choices.byte() % 4;
            const uint64_t number = choices.number();
            if (message->size() < bytes) return;
            const size_t at = choices.below(static_cast<uint32_t>(message->size() - bytes + 1));
            memcpy(message->data() + at, &number, bytes);
        }
    }
}

template <class Struct>
std::vector<std::byte> bytes_of(const Struct& value) {
    std::vector<std::byte> bytes(sizeof value);
    memcpy(bytes.data(), static_cast<const void*>(&value), sizeof value);
    return bytes;
}
inline void append(std::vector<std::byte>* bytes, const std::vector<std::byte>& more) {
    bytes->insert(bytes->end(), more.begin(), more.end());
}

}  // namespace longshore::fuzz
