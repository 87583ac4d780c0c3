#include "io/preload/pattern.h"

#include <string.h>

namespace longshore::io {
namespace {

constexpr const char* kSpecial = "*?[";
constexpr size_t kPathMax = 4096;

// Behind the class that begins at `pattern` ("[...]"), and whether it has the letter. Null: it does not end.
const char* match_class(const char* pattern, char letter, bool* has) {
    const char* at = pattern + 1;
    const bool inverted = *at == '!' || *at == '^';
    if (inverted) ++at;
    *has = false;
    for (bool first = true; *at != 0 && (*at != ']' || first); first = false) {
        const char low = *at++;
        char high = low;
        if (at[0] == '-' && at[1] != 0 && at[1] != ']') {
            high = at[1];
            at += 2;
        }
        if (low <= letter && letter <= high) *has = true;
    }
    if (*at != ']') return nullptr;
    if (inverted) *has = !*has;
    return at + 1;
}

// Whether a path has neither empty names nor any that begin with a dot: it reads as it is, and all that "."
// and ".." cost is spared.
bool is_plain(const char* path) {
    if (path[0] == '.') return false;
    for (const char* at = path; *at != 0; ++at) {
        if (at[0] == '/' && (at[1] == '/' || at[1] == '.' || at[1] == 0)) return false;
    }
    return true;
}

}  // namespace

// Goes back to the last star that may take one letter more; a double star is tried when a single one cannot.
bool matches(const char* pattern, const char* path) {
    const char *star = nullptr, *star_path = nullptr, *far = nullptr, *far_path = nullptr;
    for (;;) {
        if (pattern[0] == '*' && pattern[1] == '*') {
            pattern += 2;
            far = pattern;
            far_path = path;
            star = nullptr;
            continue;
        }
        if (*pattern == '*') {
            star = ++pattern;
            star_path = path;
            continue;
        }
        bool fits = false;
        const char* next = pattern + 1;
        if (*path == 0) {
            if (*pattern == 0) return true;
        } else if (*pattern == '?') {
            fits = *path != '/';
        } else if (*pattern == '[') {
            const char* const behind = match_class(pattern, *path, &fits);
            if (behind != nullptr)
                next = behind;
            else
                fits = *path == '[';
            fits = fits && *path != '/';
        } else {
            fits = *pattern == *path;
        }
        if (fits) {
            pattern = next;
            ++path;
            continue;
        }
        if (star != nullptr && *star_path != 0 && *star_path != '/') {
            pattern = star;
            path = ++star_path;
        } else if (far != nullptr && *far_path != 0) {
            pattern = far;
            path = ++far_path;
            star = nullptr;
        } else {
            return false;
        }
    }
}

bool Patterns::set(const char* list) {
    if (strlen(list) >= sizeof list_) return false;
    strcpy(list_, list);
    count_ = 0;
    strict_ = false;
    for (char* at = list_; *at != 0;) {
        const size_t length = strcspn(at, ":");
        const bool more = at[length] != 0;
        at[length] = 0;
        if (strcmp(at, "strict") == 0) {
            strict_ = true;
        } else if (length != 0) {
            if (count_ == kPatternsMax) return false;
            const char* const slash = strrchr(at, '/');
            size_t tail = 0;
            while (tail < length && at + length - tail > slash + 1 &&
                   strchr("*?[]", at[length - tail - 1]) == nullptr)
                ++tail;
            texts_[count_] = at;
            lengths_[count_] = static_cast<uint16_t>(length);
            quick_[count_++] = {static_cast<uint16_t>(strcspn(at, kSpecial)), static_cast<uint16_t>(tail)};
        }
        at += length + (more ? 1 : 0);
    }
    return true;
}

void Patterns::enter(const char* folder) {
    uint32_t near = folder == nullptr ? ~0u : 0;
    for (uint32_t i = 0; folder != nullptr && i < count_; ++i) {
        const size_t length = strcmp(folder, "/") == 0 ? 0 : strlen(folder), head = quick_[i].head;
        const bool is_deeper = head > length;
        if (strncmp(folder, texts_[i], is_deeper ? length : head) == 0 &&
            (!is_deeper || texts_[i][length] == '/'))
            near |= 1u << i;
    }
    near_.store(near, std::memory_order_relaxed);
}

bool Patterns::may_match(const char* path, bool in_folder) const {
    const uint32_t near = in_folder ? near_.load(std::memory_order_relaxed) : ~0u;
    const size_t length = strlen(path);
    for (uint32_t i = 0; i < count_; ++i) {
        const Quick quick = quick_[i];
        if (length < quick.tail) continue;
        if (memcmp(path + length - quick.tail, texts_[i] + lengths_[i] - quick.tail, quick.tail) == 0 &&
            ((near >> i & 1) != 0 || path[0] == '/' || !is_plain(path)))
            return true;
    }
    return false;
}

int Patterns::find(const char* path) const {
    for (uint32_t i = 0; i < count_; ++i) {
        if (strncmp(path, texts_[i], quick_[i].head) == 0 && matches(texts_[i], path))
            return static_cast<int>(i);
    }
    return -1;
}

int Patterns::find_in(const char* base, const char* path) const {
    if (path[0] == '/' && is_plain(path)) return find(path);
    char whole[kPathMax];
    size_t length = 0;
    // Name by name: "." and ".." as they read, whatever symbolic links there are.
    const auto add = [&](const char* part) {
        while (*part != 0) {
            const size_t letters = strcspn(part, "/");
            if (letters == 2 && part[0] == '.' && part[1] == '.') {
                while (length != 0 && whole[--length] != '/') {
                }
            } else if (letters != 0 && !(letters == 1 && part[0] == '.')) {
                if (length + letters + 2 > sizeof whole) return false;
                whole[length++] = '/';
                memcpy(whole + length, part, letters);
                length += letters;
            }
            part += letters;
            while (*part == '/') ++part;
        }
        return true;
    };
    if ((path[0] != '/' && !add(base)) || !add(path)) return -1;
    whole[length] = 0;
    return find(whole);
}

}  // namespace longshore::io
