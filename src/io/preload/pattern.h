// Which paths are meant: patterns of absolute paths. `*` and `?` stand for letters within a name, `**` for
// any part of a path, [a-z] and [!a-z] for one letter.
#pragma once

#include <stdint.h>

#include "io/layout.h"

namespace longshore::io {

bool matches(const char* pattern, const char* path);

class Patterns {
  public:
    // With colons between them. False: too many, or too long. The word "strict" is no pattern.
    bool set(const char* list);
    bool is_strict() const { return strict_; }
    const char* at(uint32_t index) const { return index < count_ ? texts_[index] : nullptr; }
    // A few comparisons: false for most paths that no pattern matches. The path may be relative; `in_folder`:
    // to that of enter().
    bool may_match(const char* path, bool in_folder = false) const;
    // Relative paths are in that folder from now on; null: nobody knows in which.
    void enter(const char* folder);
    // Of an absolute path without "." and "..": the pattern's number, or -1.
    int find(const char* path) const;
    // As above, of any path in the folder `base`.
    int find_in(const char* base, const char* path) const;

  private:
    struct Quick {
        uint16_t head;  // letters before the first that is not meant literally
        uint16_t tail;  // literal letters at the end, behind the last slash
    };
    char list_[kPatternLettersMax + 1] = {};
    const char* texts_[kPatternsMax] = {};
    Quick quick_[kPatternsMax] = {};
    uint16_t lengths_[kPatternsMax] = {};
    uint32_t count_ = 0;
    bool strict_ = false;
    // A bit for each pattern: whether a file of the folder entered, or of folders in it, may match. Others
    // read it meanwhile.
    Atomic<uint32_t> near_{~0u};
};

}  // namespace longshore::io
