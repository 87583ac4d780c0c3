#include "device/results.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace longshore::tools {

std::string read_results(const std::string& path, Results* results) {
    std::ifstream file(path);
    if (!file) return path + ": " + strerror(errno);
    results->path = path;
    try {
        const nlohmann::json all = nlohmann::json::parse(file);
        if (all.at("longshore_device") != 1) return path + ": written by another version of longshore device";
        results->machine = all.at("machine");
        if (all.contains("remarks")) results->remarks = all.at("remarks");
        for (const nlohmann::json& row : all.at("rows")) {
            const ResultKey key{row.at("test"), row.at("bytes"), row.at("threads")};
            const std::vector<double> samples = row.at("samples");
            if (samples.empty()) return path + ": a row without samples";
            const auto [least, most] = std::minmax_element(samples.begin(), samples.end());
            results->order.push_back(key);
            results->rows[key] = {row.at("unit"), row.at("mean"), *least, *most};
        }
    } catch (const nlohmann::json::exception& error) {
        return fmt::format("{}: not results of longshore device: {}", path, error.what());
    }
    return results->rows.empty() ? path + ": no results in it" : "";
}

std::string name_of(const nlohmann::json& machine) {
    return fmt::format("{}, {} cores", machine.value("processor", "?"), machine.value("cores", 0));
}

}  // namespace longshore::tools
