// Stands in for libFuzzer where a target takes its choices from its input: seeded bytes.
//      fuzz_NAME [seconds] [seed]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/prng.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
// How many of the conversations so far came to where most of the code is.
extern "C" uint64_t fuzz_conversations_that_got_far();

int main(int argc, char** argv) {
    const double seconds = argc > 1 ? atof(argv[1]) : 5;
    uint64_t seed = argc > 2 ? strtoull(argv[2], nullptr, 10) : 1;
    const bool one = argc > 2;
    const auto begin = std::chrono::steady_clock::now();
    uint64_t inputs = 0;
    do {
        longshore::Prng random(seed);
        std::vector<uint8_t> input(random.below(2000));
        for (uint8_t& byte : input) byte = static_cast<uint8_t>(random.next());
        if (one) printf("seed %llu\n", static_cast<unsigned long long>(seed));
        // The last that is printed is the one that ended the process.
        if (getenv("FUZZ_TRACE") != nullptr)
            fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(seed));
        LLVMFuzzerTestOneInput(input.data(), input.size());
        ++seed;
        ++inputs;
    } while (!one &&
             std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds);
    const uint64_t far = fuzz_conversations_that_got_far();
    printf("%llu conversations, %llu of them got far\n", static_cast<unsigned long long>(inputs),
           static_cast<unsigned long long>(far));
    return !one && far < inputs / 50;  // then it has tried little
}
