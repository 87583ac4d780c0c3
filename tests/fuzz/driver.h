// Stands in for libFuzzer: seeded inputs for so many seconds, or that of one seed.
//      PROGRAM [seconds] [seed]
// With FUZZ_TRACE in the environment the last seed that is printed is the one that ended the process.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "base/prng.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace longshore::fuzz {

struct Driven {
    uint64_t inputs = 0;
    bool one = false;  // by its seed: says nothing about all
};

// `make` gives the input of a random sequence, in bytes of any kind, in contiguous memory.
template <class Make>
Driven drive(int argc, char** argv, double seconds, Make make) {
    if (argc > 1) seconds = atof(argv[1]);
    uint64_t seed = argc > 2 ? strtoull(argv[2], nullptr, 10) : 1;
    Driven driven{.one = argc > 2};
    const auto begin = std::chrono::steady_clock::now();
    do {
        Prng random(seed);
        const auto input = make(random);
        if (driven.one) printf("seed %llu, %zu bytes\n", static_cast<unsigned long long>(seed), input.size());
        if (getenv("FUZZ_TRACE") != nullptr)
            fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(seed));
        LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
        ++seed;
        ++driven.inputs;
    } while (!driven.one &&
             std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds);
    return driven;
}

}  // namespace longshore::fuzz
