// Tables, mostly well formed, then mutated.
#include <algorithm>
#include <string>
#include <vector>

#include "base/selection.h"
#include "driver.h"

namespace {

using namespace longshore;

// Cuts the space into rules, so that many tables are whole.
void add_collective(Prng* random, std::string* text) {
    const auto collective = static_cast<Selected>(random->below(kSelectedCount));
    std::vector<SelectionRule> rules(1);
    for (uint64_t cuts = random->below(10); cuts > 0; --cuts) {
        SelectionRange SelectionRule::*const axes[] = {&SelectionRule::ppn, &SelectionRule::nodes,
                                                       &SelectionRule::bytes};
        const auto axis = axes[random->below(has_bytes(collective) || random->chance(20) ? 3 : 2)];
        SelectionRule& one = rules[random->below(rules.size())];
        const uint64_t cut = (one.*axis).first + 1 + (random->next() >> random->below(64));
        if (cut <= (one.*axis).first || cut > (one.*axis).last) continue;
        SelectionRule other = one;
        (one.*axis).last = cut - 1;
        (other.*axis).first = cut;
        const auto carriers = carriers_of(collective);
        other.carrier = carriers[random->below(carriers.size())];
        rules.push_back(other);
    }
    if (random->chance(100)) rules.push_back(rules[random->below(rules.size())]);
    if (random->chance(100)) rules.erase(rules.begin());
    *text += format_rules(collective, rules);
}

void damage(Prng* random, std::string* text) {
    static const char* const kWords[] = {
        "bcast", "ppn", "nodes", "bytes", "mpi", "direct", "1-", "-",
        "#",     "\n",  "\r",    "\t",    " ",   "64K-",   "0",  "18446744073709551615"};
    for (uint64_t changes = random->below(5); changes > 0; --changes) {
        const size_t at = random->below(text->size() + 1);
        switch (random->below(3)) {
            case 0:
                text->insert(at, kWords[random->below(std::size(kWords))]);
                break;
            case 1:
                text->erase(at, random->below(8));
                break;
            default:
                if (at < text->size()) (*text)[at] = static_cast<char>(random->next());
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    uint64_t whole = 0;
    const auto [inputs, one] = fuzz::drive(argc, argv, 5, [&whole](Prng& random) {
        std::string text;
        for (uint64_t n = random.below(4); n > 0; --n) add_collective(&random, &text);
        if (random.chance(600)) damage(&random, &text);
        Selection selection = built_in_selection();
        whole += parse_selection(text, &selection, nullptr);
        return text;
    });
    printf("%llu inputs, %llu of them whole tables\n", static_cast<unsigned long long>(inputs),
           static_cast<unsigned long long>(whole));
    return !one && (whole == 0 || whole == inputs);  // then it has tried one half only
}
