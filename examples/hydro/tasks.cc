#include "tasks.h"

#include <longshore_task.h>

#include <array>
#include <set>
#include <stdexcept>

namespace {

void require(int error) {
    if (error != 0)
        throw std::runtime_error(std::string("tasks: error ") + std::to_string(error) + ": " +
                                 longshore_task_error());
}

class TasksSide : public Side {
  public:
    TasksSide(double slow, bool keeps, int threads) : keeps_(keeps) {
        require(longshore_open_pool("hydro_plugin", &pool_));
        longshore_task* task = nullptr;
        const SetUpArguments set_up{slow, threads};
        require(longshore_submit(pool_, "set_up", &set_up, sizeof set_up, nullptr, 0, &task));
        require(longshore_wait(&task));
    }
    ~TasksSide() override { longshore_close_pool(&pool_); }

    void submit(KernelId kernel, const void* arguments, std::size_t arguments_bytes,
                const std::vector<Buffer>& buffers) override {
        given_.clear();
        for (const Buffer& buffer : buffers) {
            const bool is_kept = keeps_ && buffer.access == Access::kConstant && buffer.bytes != 0;
            if (is_kept) keep(buffer);
            given_.push_back({buffer.data, buffer.bytes,
                              is_kept                           ? LONGSHORE_KEPT
                              : buffer.access == Access::kOut   ? LONGSHORE_OUT
                              : buffer.access == Access::kInOut ? LONGSHORE_INOUT
                                                                : LONGSHORE_IN});
        }
        require(longshore_submit(pool_, kKernelTable[kernel].name, arguments, arguments_bytes, given_.data(),
                                 int(given_.size()), &tasks_[kernel]));
    }

    void wait(KernelId kernel) override {
        require(longshore_wait(&tasks_[kernel]));
        longshore_pool_counters counters{};
        longshore_get_pool_counters(pool_, &counters);
        bytes_copied = counters.bytes_copied;
        processes = int(counters.processes);
    }

  private:
    void keep(const Buffer& buffer) {
        if (!kept_.insert(buffer.data).second) return;
        longshore_task* task = nullptr;
        require(longshore_keep(pool_, buffer.data, buffer.bytes, &task));
        require(longshore_wait(&task));
    }

    const bool keeps_;
    std::set<const void*> kept_;
    longshore_pool* pool_ = nullptr;
    std::array<longshore_task*, kKernels> tasks_{};
    std::vector<longshore_buffer> given_;
};

}  // namespace

std::unique_ptr<Side> make_tasks_side(double slow, bool keeps, int threads) {
    return std::make_unique<TasksSide>(slow, keeps, threads);
}
