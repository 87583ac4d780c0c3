// What plug-in and program of the tests both compute.
#pragma once

#include <cstdint>

inline unsigned char combined(unsigned char a, unsigned char b, uint64_t key) {
    return static_cast<unsigned char>(3 * a + 5 * b + key % 251);
}
