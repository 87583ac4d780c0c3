#include "device/report.h"

#include <stdio.h>

#include <cerrno>
#include <cstring>

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

void write_list(FILE* file, const std::vector<std::string>& texts) {
    for (size_t i = 0; i < texts.size(); ++i) fprintf(file, "%s%s", i ? ", " : "", quoted(texts[i]).c_str());
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
    std::string error;
    if (!keep_old_file(path, &error)) return error;
    FILE* const file = fopen(path.c_str(), "a");
    if (file == nullptr) return path + ": " + strerror(errno);
    fprintf(file,
            "{\"longshore_device\": 1,\n \"machine\": {\"processor\": %s, \"architecture\": %s, \"kernel\": "
            "%s, \"date\": %s, "
            "\"cores\": %zu, \"sockets\": %u},\n \"remarks\": [",
            quoted(machine.processor).c_str(), quoted(machine.architecture).c_str(),
            quoted(machine.kernel).c_str(), quoted(machine.date).c_str(), machine.cpus.size(),
            machine.sockets);
    write_list(file, remarks);
    fprintf(file, "],\n \"left_out\": [");
    write_list(file, left_out);
    fprintf(file, "],\n \"rows\": [");
    for (size_t i = 0; i < rows.size(); ++i) {
        const Row& row = rows[i];
        fprintf(file,
                "%s\n  {\"test\": %s, \"unit\": %s, \"bytes\": %llu, \"threads\": %u, \"mean\": %s, "
                "\"samples\": [",
                i ? "," : "", quoted(row.test).c_str(), quoted(row.unit).c_str(),
                static_cast<unsigned long long>(row.bytes), row.threads, number(row.mean()).c_str());
        for (size_t s = 0; s < row.samples.size(); ++s)
            fprintf(file, "%s%s", s ? ", " : "", number(row.samples[s]).c_str());
        fprintf(file, "]}");
    }
    fprintf(file, "\n ]\n}\n");
    const bool written = ferror(file) == 0;
    if (fclose(file) != 0 || !written) return path + ": " + strerror(errno);
    return "";
}

}  // namespace longshore::device
