// Service processes write down their figures before they go to sleep, which is what a program must wait for
// whose caller looks into the statistics.
#pragma once

#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

// The first `bytes` of a file under /proc at most, empty if the process is gone.
inline std::string read_of_process(const char* pid, const char* name, size_t bytes) {
    FILE* file = fopen((std::string("/proc/") + pid + "/" + name).c_str(), "r");
    if (!file) return "";
    std::string text(bytes, '\0');
    text.resize(fread(text.data(), 1, bytes, file));
    fclose(file);
    return text;
}

// Of those in this process's session, which are the job's, or others that sleep as well before long.
inline bool all_services_sleep() {
    const std::string service("longshored:\0sp\0", 15);
    bool all = true;
    DIR* processes = opendir("/proc");
    while (const dirent* entry = readdir(processes)) {
        const int pid = atoi(entry->d_name);
        if (pid <= 0 || read_of_process(entry->d_name, "cmdline", service.size()) != service ||
            getsid(pid) != getsid(0))
            continue;
        const std::string stat = read_of_process(entry->d_name, "stat", 256);
        const size_t name_end = stat.rfind(") ");
        all &= name_end == stat.npos || stat[name_end + 2] == 'S';
    }
    closedir(processes);
    return all;
}

// They do at each of several looks; one alone might fall between two pieces of work.
inline void wait_until_services_sleep() {
    constexpr int kInARow = 5, kLooksMax = 6000;
    for (int looks = 0, asleep = 0; looks < kLooksMax && asleep < kInARow; ++looks) {
        asleep = all_services_sleep() ? asleep + 1 : 0;
        usleep(10'000);
    }
}
