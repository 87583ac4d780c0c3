// Names and contents of things, for logs and verdicts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/types.h"

namespace longshore::sim {

std::string name_of(ServiceAddress a);
std::string name_of_rank(uint32_t rank);  // of the world
std::string text_of_frame(std::span<const std::byte> frame);

}  // namespace longshore::sim
