// The words by which command lines and results name a choice.
#pragma once

#include <map>
#include <string>

template <typename Choice>
const char* name_in(const std::map<std::string, Choice>& names, Choice choice) {
    for (const auto& [name, value] : names)
        if (value == choice) return name.c_str();
    return "?";
}
