#include "base/settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <random>
#include <set>

namespace longshore {
namespace {

struct Parsed {
    bool valid = false;
    Settings settings;
    std::vector<SettingError> errors;
};

Parsed parse(std::vector<std::string> lines) {
    std::vector<const char*> environment;
    for (const std::string& line : lines) environment.push_back(line.c_str());
    environment.push_back(nullptr);
    Parsed parsed;
    parsed.valid = parse_settings(environment.data(), &parsed.settings, &parsed.errors);
    return parsed;
}

std::string message_of(std::string line) {
    const Parsed parsed = parse({std::move(line)});
    EXPECT_FALSE(parsed.valid);
    EXPECT_EQ(parsed.settings, Settings{}) << "a bad setting must leave the default";
    return parsed.errors.size() == 1 ? parsed.errors[0].message : "not one error";
}

Settings all_changed() {
    Settings settings;
    settings.offload = false;
    settings.strict = true;
    settings.stats_path = "-";
    settings.trace_path = "/tmp/a b=c#'\"trace.json";
    settings.log = LogLevel::kTrace;
    settings.algorithms_path = "/etc/algorithms";
    settings.forced_algorithms.of[0] = Carrier::kMpi;
    settings.forced_algorithms.of[4] = Carrier::kStagedHierarchical;
    settings.service_count = 3;
    settings.service_reads_max = 8;
    settings.network = NetworkCarrier::kTcp;
    settings.network_security = NetworkSecurity::kTls;
    settings.network_ports = {20000, 20999};
    settings.network_interfaces = "eth0,ib0";
    settings.link_rate = {2500};
    settings.service_spin_us = 0;
    settings.service_path = "/opt/longshored";
    settings.service_cores = {CoreChoice::Kind::kList, {3, 2, 65535}};
    settings.service_restarts_max = 0;
    settings.dpu = "node0=dpu0:7521,node1=[fe80::1%tmfifo_net0]";
    settings.task_processes = 2;
    settings.task_cores = {"other-socket"};
    settings.task_node = "next";
    settings.task_path = "/opt/plugins:/tmp";
    settings.write_behind = "/scratch/*.ckpt:strict";
    settings.write_behind_bytes_max = 8 << 20;
    settings.nodes_count = 7;
    settings.nodes_placement = NodesPlacement::kStrided;
    settings.wait_cooperative = false;
    settings.wait_report_s = 0;
    settings.limit_s = 3600;
    settings.eager_bytes = 1023;
    settings.chunk_bytes = 1 << 20;
    settings.snapshot_bytes_max = uint64_t{1} << 40;
    settings.memory_mode = MemoryMode::kStaged;
    settings.memory_alias = MemoryAlias::kOff;
    settings.memory_shared_bytes_max = 1 << 30;
    settings.staging_bytes = 65536;
    settings.memory_inaccessible = true;
    return settings;
}

TEST(SettingsTable, IsSmallAndWellFormed) {
    std::set<std::string> names;
    EXPECT_LE(setting_table().size(), 38u);
    for (const SettingInfo& info : setting_table()) {
        EXPECT_TRUE(std::string_view(info.name).starts_with("LONGSHORE_")) << info.name;
        EXPECT_TRUE(names.insert(info.name).second) << info.name << " is there twice";
        EXPECT_NE(*info.allowed, 0) << info.name;
        EXPECT_TRUE(std::string_view(info.meaning).ends_with('.')) << info.name;
    }
}

bool has_word(std::string_view text, std::string_view word) {
    for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
        const size_t end = at + word.size();
        if ((at == 0 || !isalpha(text[at - 1])) && (end == text.size() || !isalpha(text[end]))) return true;
    }
    return false;
}

TEST(SettingsTable, TheForcedAlgorithmsAreThoseOfEveryCollective) {
    const auto table = setting_table();
    const auto info = std::find_if(table.begin(), table.end(), [](const SettingInfo& row) {
        return std::string_view(row.name) == kForcedAlgorithmsName;
    });
    ASSERT_NE(info, table.end());
    for (size_t i = 0; i < kSelectedCount; ++i) {
        const auto collective = static_cast<Selected>(i);
        std::string name = selected_name(collective);
        for (char& c : name) c = static_cast<char>(toupper(c));
        EXPECT_TRUE(has_word(info->meaning, name)) << name;
        EXPECT_EQ(has_word(info->allowed, name), is_to_all(collective)) << name;
    }
}

TEST(SettingsTable, DefaultsAreThoseOfTheStruct) {
    for (const SettingInfo& info : setting_table()) {
        EXPECT_EQ(setting_value(Settings{}, info), info.default_value) << info.name;
        Settings settings = all_changed();
        EXPECT_NE(setting_value(settings, info), info.default_value)
            << info.name << ": all_changed() misses it";
        EXPECT_TRUE(set_setting(info.name, info.default_value, &settings, nullptr)) << info.name;
        EXPECT_EQ(setting_value(settings, info), info.default_value) << info.name << " has the wrong field";
    }
}

TEST(SettingsParse, NothingGivenIsTheDefault) {
    EXPECT_TRUE(parse({}).valid);
    EXPECT_EQ(parse({"PATH=/bin", "longshore_log=info", "LONGSHORE=1"}).settings, Settings{});
    Settings settings = all_changed();
    EXPECT_TRUE(parse_settings(nullptr, &settings, nullptr));
    EXPECT_EQ(settings, Settings{});
}

TEST(SettingsParse, ReadsEveryField) {
    const Settings wanted = all_changed();
    std::vector<std::string> lines;
    for (const SettingInfo& info : setting_table()) {
        lines.push_back(std::string(info.name) + "=" + setting_value(wanted, info));
    }
    const Parsed parsed = parse(lines);
    EXPECT_TRUE(parsed.valid);
    EXPECT_EQ(parsed.settings, wanted);
}

TEST(SettingsParse, FlagsTakeBothSpellings) {
    EXPECT_FALSE(parse({"LONGSHORE_OFFLOAD=0"}).settings.offload);
    EXPECT_TRUE(parse({"LONGSHORE_STRICT=on"}).settings.strict);
    EXPECT_EQ(message_of("LONGSHORE_OFFLOAD=yes"),
              "LONGSHORE_OFFLOAD=yes is not valid: it must be on or off");
}

TEST(SettingsParse, SizesTakeSuffixes) {
    EXPECT_EQ(parse({"LONGSHORE_CHUNK_BYTES=4096"}).settings.chunk_bytes, 4096u);
    EXPECT_EQ(parse({"LONGSHORE_CHUNK_BYTES=8k"}).settings.chunk_bytes, 8192u);
    EXPECT_EQ(parse({"LONGSHORE_CHUNK_BYTES=1MiB"}).settings.chunk_bytes, 1u << 20);
    EXPECT_EQ(parse({"LONGSHORE_CHUNK_BYTES=128KB"}).settings.chunk_bytes, 131072u);
    EXPECT_EQ(parse({"LONGSHORE_CHUNK_BYTES=4096B"}).settings.chunk_bytes, 4096u);
    EXPECT_EQ(parse({"LONGSHORE_SNAPSHOT_BYTES_MAX=2G"}).settings.snapshot_bytes_max, uint64_t{2} << 30);
    for (const char* bad :
         {"5000", "12K", "2K", "2M", "-4096", "4096 ", " 4096", "64KKB", "K", "B", "iB", "4iB", "KiB",
          "0x1000", "4.0K", "99999999999999999999", "18014398509481985K", "64KK"}) {
        EXPECT_NE(
            message_of(std::string("LONGSHORE_CHUNK_BYTES=") + bad).find("a power of two from 4K to 1M"),
            std::string::npos)
            << bad;
    }
}

TEST(SettingsParse, NumbersHaveBounds) {
    EXPECT_EQ(parse({"LONGSHORE_SERVICE_COUNT=16"}).settings.service_count, 16u);
    for (const char* bad : {"17", "-1", "+1", "one", "1K", "4294967297"}) {
        EXPECT_EQ(message_of(std::string("LONGSHORE_SERVICE_COUNT=") + bad),
                  std::string("LONGSHORE_SERVICE_COUNT=") + bad +
                      " is not valid: it must be a number from 0 to 16; 0 is as many as suit the job");
    }
}

TEST(SettingsParse, LinkRates) {
    EXPECT_EQ(parse({"LONGSHORE_LINK_RATE=2.5G"}).settings.link_rate.mbps, 2500u);
    EXPECT_EQ(parse({"LONGSHORE_LINK_RATE=100"}).settings.link_rate.mbps, 100u);
    EXPECT_EQ(parse({"LONGSHORE_LINK_RATE=auto"}).settings.link_rate.mbps, 0u);
    for (const char* bad : {"0", "0G", "fast", "1K", "2.5", "-1G", "1G-10G"})
        EXPECT_EQ(message_of(std::string("LONGSHORE_LINK_RATE=") + bad),
                  std::string("LONGSHORE_LINK_RATE=") + bad +
                      " is not valid: it must be auto, or a rate such as 100M or 2.5G (bits/s)");
}

TEST(SettingsParse, CoreLists) {
    const auto cores = [](const char* text) {
        return parse({std::string("LONGSHORE_SERVICE_CORES=") + text}).settings.service_cores;
    };
    EXPECT_EQ(cores("auto"), CoreChoice{});
    EXPECT_EQ(cores("none").kind, CoreChoice::Kind::kNone);
    EXPECT_EQ(cores("7").cores, (std::vector<uint32_t>{7}));
    EXPECT_EQ(cores("8-11,2").cores, (std::vector<uint32_t>{8, 9, 10, 11, 2}));
    for (const char* bad : {",", "1,", ",1", "1,,2", "1-", "-1", "3-2", "1,1", "1-3,2", "a", "all", "0-65535",
                            "65536", "1-2-3", "18446744073709551615"}) {
        message_of(std::string("LONGSHORE_SERVICE_CORES=") + bad);
    }
}

TEST(SettingsParse, OneAlgorithmIsForcedForEachCollective) {
    const Parsed parsed = parse({"LONGSHORE_BCAST_ALGORITHM=staged-flat", "LONGSHORE_GATHERV_ALGORITHM=mpi",
                                 "LONGSHORE_BCAST_ALGORITHM=mpi", "LONGSHORE_SCATTER_ALGORITHM="});
    EXPECT_TRUE(parsed.valid);
    ForcedAlgorithms wanted;
    wanted.of[static_cast<size_t>(Selected::kBcast)] = Carrier::kStaged;
    wanted.of[static_cast<size_t>(Selected::kGatherv)] = Carrier::kMpi;
    EXPECT_EQ(parsed.settings.forced_algorithms, wanted);
    EXPECT_EQ(message_of("LONGSHORE_BCAST_ALGORITHM=staged"),
              "LONGSHORE_BCAST_ALGORITHM=staged is not valid: it must be mpi, direct, staged-flat or "
              "staged-hierarchical");
    EXPECT_EQ(message_of("LONGSHORE_ALLTOALLV_ALGORITHM=staged-flat"),
              "LONGSHORE_ALLTOALLV_ALGORITHM=staged-flat is not valid: it must be mpi, direct or staged");
    EXPECT_EQ(message_of("LONGSHORE_BCST_ALGORITHM=mpi"),
              "LONGSHORE_BCST_ALGORITHM is not a setting; did you mean LONGSHORE_BCAST_ALGORITHM?");
    for (const char* bad : {"bcast", "bcast:", "bcast:staged", "bcast:mpi,", ",bcast:mpi",
                            "bcast:mpi,bcast:mpi", "bcast=mpi", "barrier:mpi"}) {
        message_of(std::string(kForcedAlgorithmsName) + "=" + bad);
    }
}

TEST(SettingsParse, EmptyMeansDefaultAndTheFirstOfTwoCounts) {
    EXPECT_EQ(parse({"LONGSHORE_SERVICE_COUNT=", "LONGSHORE_LOG="}).settings, Settings{});
    const Parsed twice = parse({"LONGSHORE_SERVICE_COUNT=2", "LONGSHORE_SERVICE_COUNT=3"});
    EXPECT_TRUE(twice.valid);
    EXPECT_EQ(twice.settings.service_count, 2u);
}

TEST(SettingsParse, OneBadSettingDoesNotSpoilTheOthers) {
    const Parsed parsed = parse({"LONGSHORE_LOG=loud", "LONGSHORE_SERVICE_COUNT=2", "LONGSHORE_NODES=2"});
    EXPECT_FALSE(parsed.valid);
    EXPECT_EQ(parsed.settings.service_count, 2u);
    ASSERT_EQ(parsed.errors.size(), 2u);
    EXPECT_EQ(parsed.errors[0].name, "LONGSHORE_LOG");
    EXPECT_EQ(parsed.errors[1].name, "LONGSHORE_NODES");
}

TEST(SettingsParse, UnknownNamesGetASuggestion) {
    EXPECT_EQ(message_of("LONGSHORE_SERVICE_CUONT=2"),
              "LONGSHORE_SERVICE_CUONT is not a setting; did you mean LONGSHORE_SERVICE_COUNT?");
    EXPECT_EQ(message_of("LONGSHORE_FROBNICATE=2"),
              "LONGSHORE_FROBNICATE is not a setting; 'longshore config' lists them all");
    EXPECT_STREQ(suggest_setting("LONGSHORE_LGO"), "LONGSHORE_LOG");
    EXPECT_STREQ(suggest_setting("chunk_byte"), "LONGSHORE_CHUNK_BYTES");
    EXPECT_STREQ(suggest_setting("LONGSHORE_EAGER"), "LONGSHORE_EAGER_BYTES");
    EXPECT_STREQ(suggest_setting("LONGSHORE_READS_MAX"), "LONGSHORE_SERVICE_READS_MAX");
    EXPECT_STREQ(suggest_setting(""), "");
    EXPECT_EQ(edit_distance("bench", "benhc"), 1u);
    EXPECT_EQ(edit_distance("", "run"), 3u);
    EXPECT_STREQ(suggest_setting(std::string(1000, 'L')), "");
}

TEST(SettingsParse, InternalNamesAreSkipped) {
    EXPECT_TRUE(parse({"LONGSHORE_INTERNAL_TOKEN=1234", "LONGSHORE_INTERNAL_=x"}).valid);
    EXPECT_FALSE(parse({"LONGSHORE_INTERNALTOKEN=1234"}).valid);
    EXPECT_TRUE(parse({"LONGSHORE_UCX_TLS=tcp", "LONGSHORE_UCX_NET_DEVICES=ib0"}).valid);
    EXPECT_FALSE(parse({"LONGSHORE_UCXTLS=tcp"}).valid);
}

TEST(SettingsParse, MessagesAreOneShortLine) {
    const std::string message = message_of("LONGSHORE_LOG=a\nb\x1b[31m" + std::string(10000, 'x'));
    EXPECT_LT(message.size(), 200u);
    EXPECT_EQ(message.find_first_of("\n\x1b"), std::string::npos);
    message_of("LONGSHORE_STATS=two\nlines");
    message_of("LONGSHORE_STATS=" + std::string(5000, 'x'));
}

TEST(Settings, ADpuHasAServiceProcessForEveryEightRanks) {
    for (const uint32_t spare : {0u, 16u}) {
        EXPECT_EQ(services_by_default(true, 0, spare), 1u);
        EXPECT_EQ(services_by_default(true, 8, spare), 1u);
        EXPECT_EQ(services_by_default(true, 9, spare), 2u);
        EXPECT_EQ(services_by_default(true, 32, spare), 4u);
        EXPECT_EQ(services_by_default(true, 1000, spare), 16u);
    }
}

TEST(Settings, AHostHasAServiceProcessForEveryTwoRanksWhereEachHasACoreOfItsOwn) {
    for (const uint32_t ranks : {0u, 1u, 2u, 8u, 200u}) EXPECT_EQ(services_by_default(false, ranks, 0), 1u);
    for (const uint32_t ranks : {0u, 1u, 2u}) EXPECT_EQ(services_by_default(false, ranks, 100), 1u);
    EXPECT_EQ(services_by_default(false, 3, 100), 2u);
    EXPECT_EQ(services_by_default(false, 8, 100), 4u);
    EXPECT_EQ(services_by_default(false, 8, 3), 3u);
    EXPECT_EQ(services_by_default(false, 1000, 100), 16u);
}

TEST(SettingsText, RoundTrips) {
    for (const Settings& wanted : {Settings{}, all_changed()}) {
        Settings settings = all_changed();
        std::vector<SettingError> errors;
        EXPECT_TRUE(decode_settings(encode_settings(wanted), &settings, &errors));
        EXPECT_TRUE(errors.empty());
        EXPECT_EQ(settings, wanted);
    }
}

TEST(SettingsText, RefusesWhatItDidNotWrite) {
    Settings settings;
    std::vector<SettingError> errors;
    EXPECT_TRUE(decode_settings("", &settings, &errors));
    EXPECT_FALSE(decode_settings("LONGSHORE_LOG=info", &settings, &errors)) << "the last line is cut off";
    EXPECT_FALSE(decode_settings("LONGSHORE_LOG\n", &settings, &errors));
    EXPECT_FALSE(decode_settings("\n", &settings, &errors));
    EXPECT_FALSE(decode_settings("LONGSHORE_LOG=loud\n", &settings, &errors));
    EXPECT_EQ(errors.size(), 4u);
}

// Random bytes, and random damage to good text, never crash; what is accepted round-trips.
TEST(SettingsText, SurvivesRandomBytes) {
    std::mt19937 random(20240601);
    const auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
    const std::string good = encode_settings(all_changed());
    for (int round = 0; round < 1000; ++round) {
        std::string text = below(2) == 0 ? good : std::string(below(200), '\0');
        for (size_t changes = text == good ? below(8) : text.size(); changes > 0 && !text.empty();
             --changes) {
            text[below(text.size())] = static_cast<char>(below(256));
        }
        Settings settings;
        std::vector<SettingError> errors;
        const bool valid = decode_settings(text, &settings, &errors);
        EXPECT_EQ(valid, errors.empty());
        Settings again;
        EXPECT_TRUE(decode_settings(encode_settings(settings), &again, nullptr));
        EXPECT_EQ(settings, again);
        const std::string line = "LONGSHORE_" + text;
        const char* environment[] = {line.c_str(), nullptr};
        parse_settings(environment, &settings, &errors);
    }
}

}  // namespace
}  // namespace longshore
