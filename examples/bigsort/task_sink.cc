#include "task_sink.h"

#include "task_calls.h"
#include "temporary.h"

namespace bigsort {

namespace {

// Several pages to a task make it cheap, several tasks to the ring keep the task process busy.
std::uint64_t batch_of(std::uint64_t slots) {
    constexpr std::uint64_t kBatchMax = 16, kBatchesMin = 8;
    std::uint64_t batch = std::max<std::uint64_t>(std::min(kBatchMax, slots / kBatchesMin), 1);
    // The slots beyond the last whole batch would lie idle.
    while (slots % batch != 0) --batch;
    while (slots / batch > LONGSHORE_TASKS_MAX / 2 && batch < slots) ++batch;
    return batch;
}

}  // namespace

TaskSink::TaskSink(const Setup& setup, const std::string& folder, Temporary* temporary)
    : AheadSink(setup.layout), temporary_(temporary), folder_(folder), batch_(batch_of(setup.layout.fan_in)) {
    ring_.resize(layout_.fan_in / batch_ * batch_ * layout_.page_values);
    if (longshore_open_pool(kPluginName, &pool_) != 0)
        throw std::runtime_error(std::string("--offload tasks: ") + longshore_task_error());
    longshore_pool_counters counters;
    longshore_get_pool_counters(pool_, &counters);
    if (counters.processes > 1)
        throw std::runtime_error(
            "--offload tasks needs one task process a rank, which keeps pages in order: unset "
            "LONGSHORE_TASK_PROCESSES");
    submit(kTaskSetup, &setup, sizeof(setup), nullptr, setup.folder);
    while (!open_.empty()) end_oldest(true, nullptr);
}

TaskSink::~TaskSink() {
    if (pool_) longshore_close_pool(&pool_);
}

void TaskSink::submit(const char* function, const void* arguments, std::size_t bytes,
                      const longshore_buffer* buffer, const std::string& path) {
    while (open_.size() >= LONGSHORE_TASKS_MAX - 1) end_oldest(true, nullptr);
    Open open;
    open.pages_end = submitted_;
    open.path = path;
    const int error = longshore_submit(pool_, function, arguments, bytes, buffer, buffer ? 1 : 0, &open.task);
    if (error != 0)
        throw std::runtime_error("cannot write " + path + " by a task: " + longshore_task_error());
    open_.push_back(open);
}

void TaskSink::begin(const Stretch& stretch) {
    submit_pages();
    AheadSink::begin(stretch);
    submit(kTaskBegin, &stretch, sizeof(stretch), nullptr, file_path(folder_, stretch.cycle, stretch.begin));
}

Value* TaskSink::page() {
    const std::uint64_t slots = ring_.size() / layout_.page_values;
    if (sent_ - submitted_ == 0 && sent_ + batch_ > slots) wait_written(sent_ + batch_ - slots);
    return &ring_[sent_ % slots * layout_.page_values];
}

// A batch ends where the ring does, so that its pages lie behind each other.
void TaskSink::put(std::size_t values_count) {
    count_page();
    batch_values_ += values_count;
    if (sent_ % batch_ == 0) submit_pages();
    for (bool ended = true; ended && !open_.empty();) end_oldest(false, &ended);
}

void TaskSink::submit_pages() {
    if (sent_ == submitted_) return;
    const std::uint64_t slots = ring_.size() / layout_.page_values;
    Value* const first = &ring_[submitted_ % slots * layout_.page_values];
    const longshore_buffer buffer = {first, batch_values_ * sizeof(Value), LONGSHORE_IN};
    const PagesTask arguments = {batch_values_};
    submitted_ = sent_;
    batch_values_ = 0;
    submit(kTaskWrite, &arguments, sizeof(arguments), &buffer,
           file_path(folder_, stretch_.cycle, (page_index_ - 1) / layout_.span_pages(stretch_.cycle)));
}

void TaskSink::finish() {
    submit_pages();
    while (!open_.empty()) end_oldest(true, nullptr);
}

longshore_pool_counters TaskSink::counters() const {
    longshore_pool_counters counters = {};
    longshore_get_pool_counters(pool_, &counters);
    return counters;
}

void TaskSink::wait_written(std::uint64_t pages) {
    if (pages > submitted_) submit_pages();
    while (written_ < pages && !open_.empty()) end_oldest(true, nullptr);
}

void TaskSink::end_oldest(bool wait, bool* ended) {
    Open& oldest = open_.front();
    temporary_->name(oldest.path);
    int done = 1;
    const int error = wait ? longshore_wait(&oldest.task) : longshore_test(&oldest.task, &done);
    if (ended) *ended = done;
    if (!done) return;
    const Open over = oldest;
    open_.pop_front();
    if (error != 0) fail(error, over.path);
    written_ = over.pages_end;
}

void TaskSink::fail(int error, const std::string& path) {
    if (error < 0) throw std::runtime_error("cannot write " + path + " by a task: " + longshore_task_error());
    Credit failure;
    const longshore_buffer buffer = {&failure, sizeof(failure), LONGSHORE_OUT};
    longshore_task* task = nullptr;
    while (!open_.empty()) {  // they fail alike, and run nothing
        longshore_wait(&open_.front().task);
        open_.pop_front();
    }
    if (longshore_submit(pool_, kTaskFailure, nullptr, 0, &buffer, 1, &task) != 0 ||
        longshore_wait(&task) != 0)
        throw std::runtime_error("cannot write " + path + " by a task: " + longshore_task_error());
    throw FileError(std::string(failure.call) + " (by a task)", folder_ + "/" + failure.file, failure.error);
}

}  // namespace bigsort
