// Results of longshore-device, as its --json has written them.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

namespace longshore::tools {

struct Measured {
    std::string unit;
    double mean = 0, least = 0, most = 0;
};
using ResultKey = std::tuple<std::string, uint64_t, uint32_t>;  // test, bytes, threads

struct Results {
    std::string path;
    nlohmann::json machine;
    std::vector<std::string> remarks;
    std::vector<ResultKey> order;
    std::map<ResultKey, Measured> rows;
};

// "" or what is wrong with the file.
std::string read_results(const std::string& path, Results* results);

// "AMD EPYC 7B13, 2 cores".
std::string name_of(const nlohmann::json& machine);

}  // namespace longshore::tools
