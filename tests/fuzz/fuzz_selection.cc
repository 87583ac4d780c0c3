// A table of rules from anywhere: whatever its text is, reading it neither crashes nor changes anything
// unless it is whole; what is accepted covers every point and survives being written and read.
// libFuzzer's entry point; fuzz_selection_driver.cc calls it where there is none.
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/prng.h"
#include "base/selection.h"

namespace {

using namespace longshore;

void require(bool condition) {
    if (!condition) abort();
}

uint64_t lines_of(std::string_view text) {
    return static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n')) + 1;
}

// At the corners of the rules and a step beyond them.
void require_cover(const Selection& selection, Prng* random) {
    for (size_t i = 0; i < kSelectedCount; ++i) {
        const auto& rules = selection.rules[i];
        require(!rules.empty());
        for (int round = 0; round < 64; ++round) {
            const auto any = [&]() -> const SelectionRule& { return rules[random->below(rules.size())]; };
            SelectionPoint at;
            at.ppn = std::max<uint64_t>(1, any().ppn.last + random->below(2));
            at.nodes = std::max<uint64_t>(1, any().nodes.last + random->below(2));
            at.bytes = any().bytes.last + random->below(2);
            at.crowded = random->below(2);
            at.form = random->below(kFormNonblocking + 1);
            at.network = random->below(kNetworkUcx + 1);
            at.spare = random->below(2);
            at.rate = any().rate.last + random->below(2);
            require(find_rule(selection, static_cast<Selected>(i), at) != nullptr);
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    // A copy of its own size, so that a sanitizer sees every byte beyond it.
    const std::unique_ptr<char[]> copy(new char[size]);
    std::copy_n(data, size, copy.get());
    const std::string_view text(copy.get(), size);
    static const Selection built_in = built_in_selection();
    Selection selection = built_in;
    SelectionError error;
    if (!parse_selection(text, &selection, &error)) {
        require(selection == built_in);
        require(error.line >= 1 && error.line <= lines_of(text));
        require(error.column >= 1 && error.column <= size + 1);
        require(!error.message.empty() && error.message.find('\n') == std::string::npos);
        return 0;
    }
    Prng random(size + 1);
    require_cover(selection, &random);
    Selection again = built_in;
    require(parse_selection(format_selection(selection), &again, &error));
    require(again == selection);
    return 0;
}
