// bigsort_data: makes an input file, and compares a sorted file with its input. No MPI: a checker of its own.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <map>
#include <vector>

#include "file_writer.h"
#include "values.h"

namespace bigsort {

namespace {

constexpr std::size_t kValuesAtOnce = 65536;

const std::map<std::string, Distribution> kDistributions = {
    {"uniform", Distribution::kUniform}, {"skewed", Distribution::kSkewed}, {"few", Distribution::kFew}};

void show(const char* what, double part) {
    if (isatty(STDERR_FILENO))
        fmt::print(stderr, "\r{} {:3.0f} %{}", what, 100 * part, part >= 1 ? "\n" : "");
}

void generate(const std::string& path, std::uint64_t bytes, std::uint64_t seed, Distribution distribution) {
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) throw FileError("open", path, errno);
    std::vector<Value> values;
    for (std::uint64_t done = 0, all = bytes / sizeof(Value); done < all; done += values.size()) {
        values.resize(std::min<std::uint64_t>(kValuesAtOnce, all - done));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = made_value(seed, done + i, distribution);
        write_all(file, path, values.data(), values.size() * sizeof(Value));
        show("generate", double(done + values.size()) / double(all));
    }
    if (close(file) != 0) throw FileError("close", path, errno);
}

struct Found {
    Tally tally;
    std::uint64_t first_disorder = 0;  // the index of the first value below the one before; 0: none
};

Found look(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) throw FileError("open", path, errno);
    struct stat about;
    if (fstat(file, &about) != 0) throw FileError("look at", path, errno);
    const std::uint64_t bytes = std::uint64_t(about.st_size);
    if (bytes % sizeof(Value) != 0)
        throw std::runtime_error(
            fmt::format("{} is cut off: its {} bytes are not a multiple of {}", path, bytes, sizeof(Value)));
    Found found;
    std::vector<Value> values;
    Value last = 0;
    for (std::uint64_t done = 0, all = bytes / sizeof(Value); done < all; done += values.size()) {
        values.resize(std::min<std::uint64_t>(kValuesAtOnce, all - done));
        read_all(file, path, values.data(), values.size() * sizeof(Value));
        found.tally.add(values.data(), values.size());
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (values[i] < last && found.first_disorder == 0) found.first_disorder = done + i;
            last = values[i];
        }
        show("check", double(done + values.size()) / double(all));
    }
    close(file);
    return found;
}

int check(const std::string& sorted, const std::string& input) {
    const Found found = look(sorted);
    if (found.first_disorder > 0) {
        fmt::print("FAILED: {}: value {} is smaller than the one before\n", sorted, found.first_disorder);
        return 1;
    }
    if (!input.empty()) {
        const Tally expected = look(input).tally;
        if (found.tally.count != expected.count) {
            fmt::print("FAILED: {} has {} values, {} has {}\n", sorted, found.tally.count, input,
                       expected.count);
            return 1;
        }
        if (found.tally.hash_sum != expected.hash_sum) {
            fmt::print("FAILED: the values of {} are not those of {}\n", sorted, input);
            return 1;
        }
    }
    fmt::print("checked: {} values in ascending order, hash sum {:016x}\n", found.tally.count,
               found.tally.hash_sum);
    return 0;
}

int run(int argc, char** argv) {
    CLI::App app("Makes an input for bigsort, or checks what it has sorted.");
    app.require_subcommand(1);
    std::string path, input;
    std::uint64_t bytes = 0, seed = 1;
    Distribution distribution = Distribution::kUniform;
    CLI::App* make = app.add_subcommand("generate", "write a file of unsigned 64-bit integers");
    make->add_option("file", path, "to be written")->required();
    make->add_option("--total", bytes, "bytes, as 64M")->required()->transform(CLI::AsSizeValue(false));
    make->add_option("--seed", seed, "equal seeds give equal files")->capture_default_str();
    make->add_option("--values", distribution,
                     "uniform (default), skewed (most are small), few (16 different ones)")
        ->transform(CLI::CheckedTransformer(kDistributions))
        ->option_text("uniform|skewed|few");
    CLI::App* look_at =
        app.add_subcommand("check", "is a file in ascending order, and has it the values of another?");
    look_at->add_option("file", path, "that has been sorted")->required();
    look_at->add_option("--input", input, "from which it was sorted");
    try {
        app.parse(argc, argv);
        if (bytes % sizeof(Value) != 0)
            throw CLI::ValidationError(
                fmt::format("--total {}: must be a multiple of {} bytes", bytes, sizeof(Value)));
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    if (make->parsed()) {
        generate(path, bytes, seed, distribution);
        return 0;
    }
    return check(path, input);
}

}  // namespace

}  // namespace bigsort

int main(int argc, char** argv) {
    try {
        return bigsort::run(argc, argv);
    } catch (const std::exception& error) {
        fmt::print(stderr, "bigsort_data: {}\n", error.what());
        return 1;
    }
}
