// How the value of a setting is read and shown, by its type. Internal to settings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/settings.h"

namespace longshore {

using SettingField = std::variant<bool Settings::*, uint32_t Settings::*, uint64_t Settings::*,
                                  std::string Settings::*, LogLevel Settings::*, NodesPlacement Settings::*,
                                  CoreChoice Settings::*, TaskCores Settings::*, ForcedAlgorithms Settings::*,
                                  MemoryMode Settings::*, MemoryAlias Settings::*, NetworkCarrier Settings::*,
                                  NetworkSecurity Settings::*, PortRange Settings::*, LinkRate Settings::*>;

// Where the value of a row of the table is, and between what it must be.
struct SettingRule {
    SettingField field;
    uint64_t min = 0;
    uint64_t max = 0;
    bool power_of_two = false;
};

// False: it is no value of that setting; `settings` is unchanged.
bool read_setting(std::string_view text, const SettingRule& rule, Settings* settings);
// In the spelling of the row's default.
std::string show_setting(const Settings& settings, const SettingRule& rule, const SettingInfo& info);

}  // namespace longshore
