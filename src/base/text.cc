#include "base/text.h"

#include <array>
#include <charconv>

namespace longshore {
namespace {

constexpr uint64_t kSuffixStep = 1024;
constexpr size_t kShownBytesMax = 60;

}  // namespace

std::optional<uint64_t> read_number(std::string_view text) {
    uint64_t number = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return number;
}

std::optional<uint64_t> read_size(std::string_view text) {
    if (text.ends_with("iB")) {
        text.remove_suffix(2);
        if (text.empty() || text.back() < 'A') return std::nullopt;  // "4iB"
    } else if (text.ends_with('B') && text.size() > 1) {
        text.remove_suffix(1);  // 128KB, and 128B for bytes
    }
    unsigned shift = 0;
    if (!text.empty()) {
        switch (text.back()) {
            case 'K':
            case 'k':
                shift = 10;
                break;
            case 'M':
            case 'm':
                shift = 20;
                break;
            case 'G':
            case 'g':
                shift = 30;
                break;
            default:
                break;
        }
    }
    if (shift != 0) text.remove_suffix(1);
    const std::optional<uint64_t> number = read_number(text);
    if (!number || *number > (UINT64_MAX >> shift)) return std::nullopt;
    return *number << shift;
}

std::string fill_in_name(std::string_view pattern, std::string_view job, std::string_view host,
                         std::string_view process) {
    std::string out;
    for (size_t i = 0; i < pattern.size(); ++i) {
        const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
        switch (next) {
            case 'j':
                out += job;
                break;
            case 'h':
                out += host;
                break;
            case 'p':
                out += process;
                break;
            case '%':
                out += '%';
                break;
            default:
                out += pattern[i];
                continue;
        }
        ++i;
    }
    return out;
}

std::string show_size(uint64_t bytes) {
    constexpr std::array<const char*, 4> kSuffixes = {"", "K", "M", "G"};
    size_t suffix = 0;
    while (bytes != 0 && bytes % kSuffixStep == 0 && suffix + 1 < kSuffixes.size()) {
        bytes /= kSuffixStep;
        ++suffix;
    }
    return std::to_string(bytes) + kSuffixes[suffix];
}

std::string shown(std::string_view text) {
    std::string line(text.substr(0, kShownBytesMax));
    for (char& c : line) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    }
    if (text.size() > kShownBytesMax) line += "...";
    return line;
}

}  // namespace longshore
