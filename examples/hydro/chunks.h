// Loops over zones, points or edges in chunks that OpenMP's threads share.
#pragma once

#include <algorithm>
#include <cstdint>

// body(first, last) for the chunks of [0, count). What a body writes belongs to its chunk alone, so results
// do not depend on the threads.
template <typename Body>
void for_chunks(std::int32_t count, std::int32_t chunk, const Body& body) {
    chunk = std::max(chunk, std::int32_t(1));
#pragma omp parallel for schedule(static)
    for (std::int32_t first = 0; first < count; first += chunk) body(first, std::min(count, first + chunk));
}

// The least of what body(first, last) returns.
template <typename Body>
double least_of_chunks(std::int32_t count, std::int32_t chunk, double least, const Body& body) {
    chunk = std::max(chunk, std::int32_t(1));
#pragma omp parallel for schedule(static) reduction(min : least)
    for (std::int32_t first = 0; first < count; first += chunk)
        least = std::min(least, body(first, std::min(count, first + chunk)));
    return least;
}
