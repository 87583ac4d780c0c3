// What was measured, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "device/machine.h"
#include "device/row.h"

namespace longshore::device {

void print_machine(const MachineFacts& machine);
// One line; the first of a kind (STREAM has four tests) comes with a heading.
void print_row(const Row& row, const std::string& test_before);
// "" or why the file cannot be written. docs/device.md has the schema.
std::string write_json(const std::string& path, const MachineFacts& machine, const std::vector<Row>& rows,
                       const std::vector<std::string>& remarks, const std::vector<std::string>& left_out);

}  // namespace longshore::device
