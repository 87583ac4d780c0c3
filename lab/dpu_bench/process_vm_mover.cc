#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "dpu_bench/mover.h"

namespace longshore::dpu_bench {
namespace {

class ProcessVmMover : public Mover {
  public:
    const char* name() const override { return "process_vm"; }
    bool one_machine_only() const override { return true; }

    RegionHandle expose(void* base, std::size_t bytes) override {
        base_ = static_cast<char*>(base);
        bytes_ = bytes;
        // Where Yama guards processes, peers that are not ancestors must be allowed in; elsewhere this fails,
        // and nothing is lost.
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
        return {reinterpret_cast<std::uint64_t>(base), std::uint64_t(getpid())};
    }

    void connect(std::span<const RegionHandle> handles) override {
        handles_.assign(handles.begin(), handles.end());
    }

    void read(int peer, std::size_t remote_offset, std::size_t local_offset, std::size_t bytes) override {
        move(peer, remote_offset, local_offset, bytes, process_vm_readv, "read");
    }

    void write(int peer, std::size_t remote_offset, std::size_t local_offset, std::size_t bytes) override {
        move(peer, remote_offset, local_offset, bytes, process_vm_writev, "write");
    }

    void wait_all() override {
        if (error_.empty()) return;
        const std::string error = std::exchange(error_, "");
        throw std::runtime_error(error);
    }

  private:
    using Call = decltype(&process_vm_readv);

    // The kernel moves up to about 2 GiB in a call.
    void move(int peer, std::size_t remote_offset, std::size_t local_offset, std::size_t bytes, Call call,
              const char* what) {
        if (!error_.empty()) return;
        if (local_offset > bytes_ || bytes > bytes_ - local_offset) {
            error_ = "a transfer leaves this process's region";
            return;
        }
        const RegionHandle& handle = handles_.at(std::size_t(peer));
        while (bytes > 0) {
            const iovec local = {base_ + local_offset, bytes};
            const iovec remote = {reinterpret_cast<void*>(handle.address + remote_offset), bytes};
            const ssize_t moved = call(pid_t(handle.key), &local, 1, &remote, 1, 0);
            if (moved <= 0) {
                error_ = failure(peer, what, moved < 0 ? errno : EFAULT);
                return;
            }
            bytes -= std::size_t(moved);
            remote_offset += std::size_t(moved);
            local_offset += std::size_t(moved);
        }
    }

    static std::string failure(int peer, const char* what, int code) {
        std::string text = std::string("cannot ") + what + " the memory of rank " + std::to_string(peer) +
                           ": " + std::strerror(code);
        if (code == EPERM)
            text +=
                "; the kernel keeps processes apart here (a container without ptrace, or ptrace_scope above "
                "1)";
        return text;
    }

    char* base_ = nullptr;
    std::size_t bytes_ = 0;
    std::vector<RegionHandle> handles_;
    std::string error_;  // of the first transfer that failed since the last wait
};

}  // namespace

std::unique_ptr<Mover> make_process_vm_mover() {
    return std::make_unique<ProcessVmMover>();
}

}  // namespace longshore::dpu_bench
