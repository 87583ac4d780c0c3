// Where a target takes its choices from its input: any bytes will do.
#include <vector>

#include "driver.h"

// How many of the conversations so far came to where most of the code is.
extern "C" uint64_t fuzz_conversations_that_got_far();

int main(int argc, char** argv) {
    const auto [inputs, one] = longshore::fuzz::drive(argc, argv, 5, [](longshore::Prng& random) {
        std::vector<uint8_t> input(random.below(2000));
        for (uint8_t& byte : input) byte = static_cast<uint8_t>(random.next());
        return input;
    });
    const uint64_t far = fuzz_conversations_that_got_far();
    printf("%llu conversations, %llu of them got far\n", static_cast<unsigned long long>(inputs),
           static_cast<unsigned long long>(far));
    return !one && far < inputs / 50;  // then it has tried little
}
