#include "device/report.h"

#include <stdio.h>

#include "base/output_file.h"
#include "base/text.h"

namespace longshore::device {
namespace {

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return out + "\"";
}

std::string number(double value) {
    char text[32];
    snprintf(text, sizeof text, "%.6g", value);
    return text;
}

// Each after the comma, if it is not the first.
std::string joined(const std::vector<std::string>& values, const char* comma) {
    std::string out;
    for (const std::string& value : values) out += (out.empty() ? "" : comma) + value;
    return out;
}

std::string list_of(const std::vector<std::string>& texts) {
    std::vector<std::string> values;
    for (const std::string& text : texts) values.push_back(quoted(text));
    return "[" + joined(values, ", ") + "]";
}

std::string json_of(const MachineFacts& machine) {
    return "{\"processor\": " + quoted(machine.processor) +
           ", \"architecture\": " + quoted(machine.architecture) + ", \"kernel\": " + quoted(machine.kernel) +
           ", \"date\": " + quoted(machine.date) + ", \"cores\": " + std::to_string(machine.cpus.size()) +
           ", \"sockets\": " + std::to_string(machine.sockets) + "}";
}

std::string json_of(const Row& row) {
    std::vector<std::string> samples;
    for (const double sample : row.samples) samples.push_back(number(sample));
    return "{\"test\": " + quoted(row.test) + ", \"unit\": " + quoted(row.unit) +
           ", \"bytes\": " + std::to_string(row.bytes) + ", \"threads\": " + std::to_string(row.threads) +
           ", \"mean\": " + number(row.mean()) + ", \"samples\": [" + joined(samples, ", ") + "]}";
}

}  // namespace

void print_machine(const MachineFacts& machine) {
    printf("# %s, %zu cores on %u socket%s, %s free, %s (%s), %s\n", machine.processor.c_str(),
           machine.cpus.size(), machine.sockets, machine.sockets == 1 ? "" : "s",
           show_size(machine.memory_free_bytes >> 30 << 30).c_str(), machine.kernel.c_str(),
           machine.architecture.c_str(), machine.date.c_str());
}

void print_row(const Row& row, const std::string& test_before) {
    const auto kind = [](const std::string& test) { return test.substr(0, test.find(' ')); };
    if (kind(row.test) != kind(test_before))
        printf("\n%-20s %6s %8s %11s %11s %11s\n", "test", "bytes", "threads", "mean", "least", "most");
    printf("%-20s %6s %8u %11s %11s %11s  %s\n", row.test.c_str(),
           row.bytes == 0 ? "-" : show_size(row.bytes).c_str(), row.threads, number(row.mean()).c_str(),
           number(row.least()).c_str(), number(row.most()).c_str(), row.unit.c_str());
    fflush(stdout);
}

std::string write_json(const std::string& path, const MachineFacts& machine, const std::vector<Row>& rows,
                       const std::vector<std::string>& remarks, const std::vector<std::string>& left_out) {
    std::vector<std::string> lines;
    for (const Row& row : rows) lines.push_back("\n  " + json_of(row));
    const std::string text = "{\"longshore_device\": 1,\n \"machine\": " + json_of(machine) +
                             ",\n \"remarks\": " + list_of(remarks) +
                             ",\n \"left_out\": " + list_of(left_out) + ",\n \"rows\": [" +
                             joined(lines, ",") + "\n ]\n}\n";
    std::string error;
    return write_output_file(path, text, &error) ? "" : error;
}

}  // namespace longshore::device
