// What a mover says when it cannot: the text of the exception that an action throws.
#pragma once

#include <stdexcept>
#include <string>

#include "dpu_bench/mover.h"

namespace longshore::dpu_bench {

// "" if it throws none.
template <typename Action>
std::string failure_of(Action action) {
    try {
        action();
    } catch (const std::runtime_error& error) {
        return error.what();
    }
    return "";
}

// Of waiting for all that it moves.
inline std::string failure(Mover& mover) {
    return failure_of([&] { mover.wait_all(); });
}

}  // namespace longshore::dpu_bench
