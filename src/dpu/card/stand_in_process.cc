#include "dpu/card/stand_in_process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dpu/card/own_role.h"
#include "dpu/card/stand_in.h"
#include "dpu/card/stand_in_role.h"
#include "fabric/shm/socket.h"

namespace longshore {
namespace {

constexpr int kHelloFd = 3, kSocketFd = 4, kDoorFd = 5;
constexpr int kFarFd = 64;  // none of these

}  // namespace

int exec_stand_in(SessionStream stream, const SessionHello& hello, Fd door, const std::string& service_path) {
    const std::vector<std::byte> body = encode(hello);
    const Fd file = make_memory_file("longshore-hello", body.size());
    const Fd socket = stream.take_socket();
    const int far[3] = {fcntl(file.get(), F_DUPFD_CLOEXEC, kFarFd),
                        fcntl(socket.get(), F_DUPFD_CLOEXEC, kFarFd),
                        fcntl(door.get(), F_DUPFD_CLOEXEC, kFarFd)};
    if (far[0] < 0 || far[1] < 0 || far[2] < 0 ||
        pwrite(far[0], body.data(), body.size(), 0) != ssize_t(body.size()) || dup2(far[0], kHelloFd) < 0 ||
        dup2(far[1], kSocketFd) < 0 || dup2(far[2], kDoorFd) < 0) {
        fprintf(stderr, "longshored: a stand-in cannot be started: %s\n", strerror(errno));
        return 1;
    }
    const char* const path = own_role_program();
    char program[] = "longshored:", role[] = "stand-in";
    char* const arguments[] = {program, role, const_cast<char*>(service_path.c_str()), nullptr};
    execve(path, arguments, environ);
    fprintf(stderr, "longshored: a stand-in cannot be started: %s: %s\n", path, strerror(errno));
    return 1;
}

int run_stand_in_process(const char* service_path) {
    const Fd file(kHelloFd);
    Fd socket(kSocketFd), door(kDoorFd);
    std::vector<std::byte> body(kHelloBytesMax);
    const ssize_t got = pread(file.get(), body.data(), body.size(), 0);
    fcntl(door.get(), F_SETFD, FD_CLOEXEC);
    SessionHello hello;
    if (got < 0 || !decode(std::span(body).first(static_cast<size_t>(got)), &hello)) {
        fprintf(stderr, "longshored: a stand-in is started by 'longshored listen' alone\n");
        return 2;
    }
    StandInOptions options;
    options.service_path = service_path;
    add_stand_in_role();
    return run_stand_in(SessionStream(std::move(socket), hello.limit_s), hello, std::move(door), options);
}

}  // namespace longshore
