// The conditions that a rule of selection may name: what each is called, reads and shows. Internal to
// selection.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/selection.h"

namespace longshore {

struct Condition {
    std::string_view name;
    SelectionRange SelectionRule::*range;
    uint64_t SelectionPoint::*value;
    bool (*read)(std::string_view text, SelectionRange* range);
    std::string (*show)(const SelectionRange& range);  // of one that does not hold everything
    const char* allowed;

    const SelectionRange& of(const SelectionRule& rule) const { return rule.*range; }
    bool is_said(const SelectionRule& rule) const { return of(rule) != of(SelectionRule{}); }
    std::string text(const SelectionRange& one) const { return std::string(name) + " " + show(one); }
};

// In the order of the columns. Those of few values come first, so that a check for holes has few rules left
// where there are many; bytes, which it does not divide, come last.
inline constexpr size_t kConditionCount = 8, kPpn = 5, kBytes = kConditionCount - 1;
extern const std::array<Condition, kConditionCount> kConditions;

// Whether `a` holds wherever `b` does, as far as the conditions from number `next` on say.
bool holds_wherever(const SelectionRule& a, const SelectionRule& b, size_t next);

}  // namespace longshore
