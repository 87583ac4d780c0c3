// --offload tasks: Longshore's task process of the rank writes. Without Longshore the same plug-in runs in
// the rank.
#pragma once

#include <deque>

#include "sink.h"

namespace bigsort {

class TaskSink : public AheadSink {
  public:
    // Throws FileError, or std::runtime_error where there is no plug-in.
    TaskSink(const Setup& setup, const std::string& folder, Temporary* temporary);
    ~TaskSink() override;
    void begin(const Stretch& stretch) override;
    Value* page() override;
    void put(std::size_t values_count) override;
    void finish() override;
    longshore_pool_counters counters() const override;

  private:
    struct Open {
        longshore_task* task = nullptr;
        std::uint64_t pages_end =
            0;             // of all pages that have been put, those before are written when it is over
        std::string path;  // that its last page goes to
    };
    void wait_written(std::uint64_t pages) override;
    void submit(const char* function, const void* arguments, std::size_t bytes,
                const longshore_buffer* buffer, const std::string& path);
    void submit_pages();
    void end_oldest(bool wait, bool* ended);
    [[noreturn]] void fail(int error, const std::string& path);

    Temporary* temporary_;
    std::string folder_;
    longshore_pool* pool_ = nullptr;
    std::uint64_t batch_ = 1;  // pages in a task; divides the number of slots
    std::vector<Value> ring_;  // one block, which the task process maps
    std::deque<Open> open_;
    std::uint64_t submitted_ = 0;  // pages
    std::uint64_t written_ = 0;
    std::uint64_t batch_values_ = 0;
};

}  // namespace bigsort
