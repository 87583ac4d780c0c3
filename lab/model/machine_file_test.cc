// Machine files: those that come with the product can be read, and what is wrong with one is said with its
// line.
#include "model/machine_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace longshore::timed {
namespace {

std::string shipped_text() {
    std::ifstream file(LONGSHORE_MACHINES "/mpcdf-bf3.toml");
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

// The shipped file with one line in another's place, and what is said of it. `line` gets the line's number.
std::string with(const std::string& from, const std::string& to, int* line, Machine* out = nullptr) {
    std::string text = shipped_text();
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    *line = 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n'));
    text.replace(at, text.find('\n', at) - at, to);
    Machine machine;
    return parse_machine(text, "m.toml", out != nullptr ? out : &machine);
}

void expect_said(const std::string& from, const std::string& to, const std::string& part,
                 bool has_line = true, int from_there = 0) {
    int line = 0;
    const std::string said = with(from, to, &line);
    line += from_there;
    EXPECT_NE(said.find(part), std::string::npos) << said;
    EXPECT_EQ(said.find(has_line ? "m.toml:" + std::to_string(line) + ": " : "m.toml: "), 0u) << said;
}

TEST(MachineFile, AllThatComeWithTheProductCanBeRead) {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(LONGSHORE_MACHINES)) {
        Machine machine;
        EXPECT_EQ(read_machine(entry.path(), &machine), "");
        EXPECT_EQ(machine.name, entry.path().stem());
        for (const MachineValue& value : machine_values())
            EXPECT_FALSE(machine.sources[value.key].empty()) << value.key;
        ++count;
    }
    EXPECT_GE(count, 1u);
}

TEST(MachineFile, IsWrittenAsItIsRead) {
    Machine m, again;
    ASSERT_EQ(parse_machine(shipped_text(), "m.toml", &m), "");
    m.title = "a \"quoted\" \\ title";
    ASSERT_EQ(parse_machine(write_machine(m), "written", &again), "");
    EXPECT_EQ(again.title, m.title);
    EXPECT_EQ(again.sources, m.sources);
    for (const MachineValue& value : machine_values())
        EXPECT_EQ(again.*(value.at), m.*(value.at)) << value.key;
}

// Its table is left out, all of it.
TEST(MachineFile, AMachineNeedNotHaveADpu) {
    std::string text = shipped_text();
    const size_t begin = text.find("[dpu]"), end = text.find("[mpi]");
    text.erase(begin, end - begin);
    Machine m, again;
    ASSERT_EQ(parse_machine(text, "m.toml", &m), "");
    EXPECT_FALSE(m.has_dpu());
    EXPECT_EQ(write_machine(m).find("[dpu]"), std::string::npos);
    ASSERT_EQ(parse_machine(write_machine(m), "m.toml", &again), "");
    EXPECT_FALSE(again.has_dpu());
    EXPECT_NE(set_value(&m, "dpu.cores=16").find("has no DPU"), std::string::npos);
    text = shipped_text();
    const size_t cores = text.find("cores", text.find("[dpu]"));
    text.erase(cores, text.find('\n', cores) - cores);
    EXPECT_NE(parse_machine(text, "m.toml", &m).find("dpu.cores is missing"), std::string::npos);
}

TEST(MachineFile, ValuesAreKeptInBytesAndPicoseconds) {
    Machine m;
    ASSERT_EQ(parse_machine(shipped_text(), "m.toml", &m), "");
    EXPECT_EQ(m.pcie_rate, 13'920'000'000u);
    EXPECT_EQ(m.link_latency, 190u * kNanosecond);
    EXPECT_EQ(m.service_spin, 1000u * kMicrosecond);
    EXPECT_EQ(m.mpi_eager, 8192u);
    EXPECT_EQ(m.jitter_cost, 100'000u);
    int line = 0;
    EXPECT_EQ(
        with("rate = { value = 13.92", "rate = { value = 128, unit = \"Gb/s\", source = \"x\" }", &line, &m),
        "");
    EXPECT_EQ(m.pcie_rate, 16'000'000'000u);
}

TEST(MachineFile, SaysWhatIsWrongAndWhere) {
    expect_said("ports = ", "ports = 64", "switch.ports has to say where it comes from");
    expect_said("ports = ", "ports = { value = 64 }", "has no source");
    expect_said("ports = ", "ports = { value = 64, source = \"\" }", "has no source");
    expect_said("ports = ", "ports = { value = 1, source = \"x\" }", "must be between 2 and");
    expect_said("ports = ", "ports = { value = 64, unit = \"GB\", source = \"x\" }", "a number without one");
    expect_said("ports = ", "ports = { source = \"x\" }", "has no value");
    expect_said("ports = ", "ports = { value = 64, from = \"x\" }", "no \"from\"");
    expect_said("latency = { value = 130", "", "switch.latency is missing", true, -2);  // the table's line
    Machine none;
    EXPECT_EQ(parse_machine("name = \"x\"", "m.toml", &none).find("m.toml: node.cores is missing"), 0u);
    expect_said("ports = ", "prots = { value = 64, source = \"x\" }",
                "there are switch.ports, switch.latency");
    expect_said("gap = ", "gap = { value = 5, unit = \"GB/s\", source = \"x\" }", "ps, ns, us, ms or s");
    expect_said("gap = ", "gap = { value = -5, unit = \"ns\", source = \"x\" }", "must be between 0 ps");
    expect_said("gap = ", "gap = { value = 5, source = \"x\" }", "link.gap has no unit");
    expect_said("gap = ", "gap = { value 5 }", "this is not TOML");
    expect_said("cores = ", "sockets = { value = 2, source = \"x\" }", "take the line out");
    expect_said("name = ", "nmae = \"x\"", "\"nmae\" is not known here");
    expect_said("name = ", "", "the machine has no name", false);
    int line = 0;
    const std::string said =
        with("core_rate = ", "core_rate = { value = 200, unit = \"GB/s\", source = \"x\" }", &line);
    EXPECT_EQ(said.find("m.toml:" + std::to_string(line - 2) + ": memory.core_rate is of one core"), 0u)
        << said;
}

TEST(MachineFile, AFileThatIsNotThereIsNamed) {
    Machine m;
    EXPECT_EQ(read_machine("/nowhere/m.toml", &m), "/nowhere/m.toml: No such file or directory");
}

TEST(MachineValues, CanBeSetByTheirKeys) {
    Machine m;
    m.dpu_cores = 16;
    EXPECT_EQ(set_value(&m, "pcie.rate=25 GB/s"), "");
    EXPECT_EQ(m.pcie_rate, 25'000'000'000u);
    EXPECT_EQ(m.sources["pcie.rate"], "given on the command line");
    EXPECT_EQ(set_value(&m, "node.cores=16"), "");
    EXPECT_EQ(m.cores, 16u);
    EXPECT_NE(set_value(&m, "pcie.rat=25 GB/s"), "");
    EXPECT_NE(set_value(&m, "pcie.rate"), "");
    EXPECT_NE(set_value(&m, "pcie.rate=fast"), "");
    EXPECT_NE(set_value(&m, "pcie.rate=25"), "");
}

TEST(MachineValues, AreWrittenAsTheyAreRead) {
    Machine m;
    ASSERT_EQ(parse_machine(shipped_text(), "m.toml", &m), "");
    for (const MachineValue& value : machine_values()) {
        Machine copy;
        copy.dpu_cores = m.dpu_cores;
        EXPECT_EQ(set_value(&copy, std::string(value.key) + "=" + written(value.unit, m.*(value.at))), "");
        EXPECT_EQ(copy.*(value.at), m.*(value.at)) << value.key;
    }
}

}  // namespace
}  // namespace longshore::timed
