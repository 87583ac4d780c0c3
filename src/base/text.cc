#include "base/text.h"

#include <locale.h>

#include <array>
#include <charconv>
#include <cstdarg>
#include <cstdio>

namespace longshore {
namespace {

constexpr uint64_t kSuffixStep = 1024;
constexpr size_t kShownBytesMax = 60;
constexpr size_t kMostTextsBytes = 512;

// While one lives, this thread has the locale "C".
class PlainLocale {
  public:
    PlainLocale() : before_(uselocale(plain())) {}
    ~PlainLocale() { uselocale(before_); }
    PlainLocale(const PlainLocale&) = delete;
    PlainLocale& operator=(const PlainLocale&) = delete;

  private:
    static locale_t plain() {
        static const locale_t locale = newlocale(LC_ALL_MASK, "C", nullptr);
        return locale;
    }
    locale_t before_;
};

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

void append(std::string* out, const char* format, ...) {
    const PlainLocale plain;
    char text[kMostTextsBytes];
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length > 0 && static_cast<size_t>(length) < sizeof text) {
        out->append(text, static_cast<size_t>(length));
    } else if (length > 0) {
        const size_t before = out->size(), bytes = static_cast<size_t>(length);
        out->resize(before + bytes + 1);  // with the zero
        vsnprintf(out->data() + before, bytes + 1, format, again);
        out->resize(before + bytes);
    }
    va_end(again);
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
