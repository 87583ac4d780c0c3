#include "dpu/card/gate_config.h"

#include <gtest/gtest.h>

#include <random>

namespace longshore {
namespace {

std::string error_of(const std::string& text) {
    GateConfig config;
    std::string error;
    EXPECT_FALSE(parse_gate_config(text, &config, &error)) << text;
    EXPECT_EQ(config, GateConfig{}) << "what is wrong must change nothing: " << text;
    return error;
}

IpNetwork network(const char* text) {
    const auto read = read_ip_network(text);
    EXPECT_TRUE(read.has_value()) << text;
    return read.value_or(IpNetwork{});
}

bool contains(const char* text, const char* address) {
    return network(text).contains(read_ip_address(address).value());
}

TEST(IpNetworks, HoldTheAddressesOfTheirPrefix) {
    EXPECT_TRUE(contains("10.1.0.0/16", "10.1.255.255"));
    EXPECT_FALSE(contains("10.1.0.0/16", "10.2.0.0"));
    EXPECT_TRUE(contains("10.1.2.3", "10.1.2.3"));
    EXPECT_FALSE(contains("10.1.2.3", "10.1.2.2"));
    EXPECT_TRUE(contains("10.1.2.128/25", "10.1.2.129"));
    EXPECT_FALSE(contains("10.1.2.128/25", "10.1.2.127"));
    EXPECT_TRUE(contains("0.0.0.0/0", "255.1.2.3"));
    EXPECT_FALSE(contains("0.0.0.0/0", "fe80::1"));
    EXPECT_TRUE(contains("fd00::/8", "fdff::1"));
    EXPECT_FALSE(contains("fd00::/8", "fe80::1"));
    EXPECT_TRUE(contains("::/0", "fe80::1"));
    EXPECT_FALSE(contains("::/0", "10.0.0.1"));
    EXPECT_TRUE(contains("10.0.0.0/8", "::ffff:10.1.2.3"));  // as an IPv6 socket tells of an IPv4 peer
    EXPECT_TRUE(contains("::ffff:10.0.0.0/104", "10.1.2.3"));
}

TEST(IpNetworks, AreShownAsTheyAreRead) {
    for (const char* text : {"10.1.0.0/16", "0.0.0.0/0", "10.1.2.3/32", "fd00::/8", "::/0", "::1/128"})
        EXPECT_EQ(show(network(text)), text);
    EXPECT_EQ(show(network("10.1.2.3")), "10.1.2.3/32");
}

TEST(IpNetworks, WhatIsNoneIsRefused) {
    for (const char* bad :
         {"", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.1/8", "10.0/8",
          "fd00::/129", "fd00::1/64", "localhost", "10.0.0.0/8/8", "10.0.0.0 /8", "[::1]", "fe80::1%lo"})
        EXPECT_FALSE(read_ip_network(bad).has_value()) << bad;
    EXPECT_FALSE(read_ip_network(std::string_view("10.0.0.0\0", 9)).has_value());
}

TEST(GateConfigs, ReadEveryName) {
    GateConfig wanted;
    wanted.address = "10.1.0.1";
    wanted.port = 99;
    wanted.allow = {network("10.1.0.0/16"), network("fd00::/8")};
    wanted.job_users = {70000, 70999};
    wanted.jobs_max = 2;
    wanted.jobs_per_address_max = 1;
    wanted.ranks_max = 3;
    wanted.ranks_per_job_max = 4;
    wanted.ranks_per_address_max = 5;
    wanted.task_folders = {"/opt/plugins", "/usr/lib/more plugins"};
    wanted.task_processes_per_job_max = 7;
    wanted.limit_s = 6;
    GateConfig config;
    std::string error;
    EXPECT_TRUE(
        parse_gate_config("# all\n\naddress = 10.1.0.1\nport=99\r\n  allow = 10.1.0.0/16 ,fd00::/8 # two\n"
                          "job_users = 70000-70999\njobs_max = 2\njobs_per_address_max = 1\nranks_max = "
                          "3\nranks_per_job_max = 4\nranks_per_address_max = 5\n"
                          "task_folders = /opt/plugins , /usr/lib/more plugins\n"
                          "task_processes_per_job_max = 7\nlimit_s = 6",
                          &config, &error))
        << error;
    EXPECT_EQ(config, wanted);
    for (const GateConfig& each : {wanted, GateConfig{}}) {
        GateConfig again = wanted;
        EXPECT_TRUE(parse_gate_config(show(each), &again, &error)) << error;
        EXPECT_EQ(again, each);
    }
}

TEST(GateConfigs, SayWhereTheyAreWrong) {
    EXPECT_EQ(error_of("\njobs_mx = 2\n"), "line 2: there is no setting \"jobs_mx\"");
    EXPECT_EQ(error_of("jobs_max 2"), "line 1: \"jobs_max 2\" is not name = value");
    EXPECT_EQ(error_of("port = 1\nport = 2\n"), "line 2: port is there twice");
    EXPECT_EQ(error_of("ranks_max = 0"), "line 1: ranks_max = 0: it must be a number from 1 to 65536");
    EXPECT_EQ(error_of("allow = 10.0.0.0/8, 10.0.0.1/8"),
              "line 1: allow: \"10.0.0.1/8\" is not a network such as 10.1.0.0/16 or fd00:1::/32");
    for (const char* bad : {"= 1",
                            "port = 65536",
                            "port = -1",
                            "port =",
                            "limit_s = 0",
                            "limit_s = 3601",
                            "limit_s = 1s",
                            "jobs_max = 65537",
                            "jobs_max = 2 3",
                            "allow = ,",
                            "job_users = 0-5",
                            "job_users = 5-4",
                            "job_users = 1-4294967295",
                            "job_users = 1-",
                            "job_users = -1",
                            "job_users = 1 - 2",
                            "allow = 10.0.0.0/8,",
                            "task_folders = plugins",
                            "task_folders = /opt/plugins,",
                            "task_folders = /opt/a, ../b",
                            "address =",
                            "address = a b",
                            "x"})
        EXPECT_TRUE(error_of(bad).starts_with("line 1: ")) << bad;
    EXPECT_NE(error_of("a\x1b[31m = 1").find("a?[31m"), std::string::npos);
}

// Who forgets it would let everybody start processes here.
TEST(GateConfigs, WhoMayComeMustBeSaid) {
    const auto complete = [](const char* text) {
        GateConfig config;
        std::string error;
        EXPECT_TRUE(parse_gate_config(text, &config, &error)) << error;
        const bool is = is_complete(config, &error);
        EXPECT_EQ(error.empty(), is);
        EXPECT_EQ(error.find("allow = 0.0.0.0/0, ::/0") == error.npos, is) << error;
        return is;
    };
    EXPECT_FALSE(complete(""));
    EXPECT_FALSE(complete("allow ="));
    EXPECT_FALSE(complete("address = 10.1.0.1"));
    EXPECT_FALSE(complete("address = localhost"));  // a name can lead anywhere
    EXPECT_TRUE(complete("address = 127.0.0.1"));
    EXPECT_TRUE(complete("address = ::1"));
    EXPECT_TRUE(complete("allow = 0.0.0.0/0, ::/0"));
    EXPECT_TRUE(complete("allow = 10.1.0.7"));
}

TEST(GateConfigs, FilesThatCannotBeReadAreErrors) {
    GateConfig config;
    std::string error;
    EXPECT_FALSE(load_gate_config("/nowhere/longshored.conf", &config, &error));
    EXPECT_EQ(error, "/nowhere/longshored.conf: No such file or directory");
    EXPECT_FALSE(load_gate_config("/tmp", &config, &error));
    EXPECT_FALSE(load_gate_config("/dev/zero", &config, &error));
    EXPECT_EQ(error, "/dev/zero: is longer than 64 KiB");
}

// What is accepted says the same when it is shown and read again.
TEST(GateConfigs, SurviveRandomText) {
    std::mt19937 random(20250602);
    const std::string words[] = {"port", "allow", "jobs_max",   "=", " ",  "\n",      "#", "job_users",
                                 "1-2",  "1",     "10.0.0.0/8", ",", "::", "address", "*"};
    int accepted = 0;
    for (int round = 0; round < 50000; ++round) {
        std::string text, error;
        for (size_t i = random() % 8; i > 0; --i) text += words[random() % std::size(words)];
        GateConfig config, again;
        if (!parse_gate_config(text, &config, &error)) continue;
        ++accepted;
        EXPECT_TRUE(parse_gate_config(show(config), &again, &error)) << text;
        EXPECT_EQ(config, again) << text;
    }
    EXPECT_GT(accepted, 1000);
}

}  // namespace
}  // namespace longshore
