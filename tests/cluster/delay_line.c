/* A link that takes time, where the kernel has no netem: two network devices (TAP), and this program between
 * them. A frame that leaves by the first comes in at the second after the delay; the other way it is handed
 * on at once. Large packets pass whole. Holding and copying takes time of a core: compare with a line of no
 * delay (0 us), not with none.
 *
 *     delay_line FIRST SECOND MICROSECONDS
 *
 * Creates both devices where it is started, says "ready", and ends when its parent does; they go with it.
 * They may be moved to other network namespaces meanwhile. Runs in the real-time class, where it may: a frame
 * that is due does not wait for a rank's time slice. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { kFrameBytesMax = 66 << 10, kFramesMax = 2048 };

struct frame {
    int64_t due_ns;
    ssize_t bytes;
    char data[kFrameBytesMax]; /* with the header that says how the packet is to be cut */
};

static struct frame* ring; /* of frames that wait for their time: kFramesMax places */
static unsigned first, waiting;

static void fail(const char* what) {
    fprintf(stderr, "delay_line: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int make_device(const char* name) {
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (device < 0) fail("/dev/net/tun");
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (ioctl(device, TUNSETIFF, &request) != 0) fail(name);
    if (ioctl(device, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) != 0) fail("TUNSETOFFLOAD");
    return device;
}

/* A frame that the other side does not take (it is down, or full) is lost, as on a wire. */
static void hand_on(int device, const char* data, ssize_t bytes) {
    if (write(device, data, (size_t)bytes) < 0 && errno != EIO && errno != EAGAIN && errno != EINVAL)
        fail("write");
}

static void take_in(int device, int64_t delay_ns) {
    while (waiting < kFramesMax) {
        struct frame* place = &ring[(first + waiting) % kFramesMax];
        place->bytes = read(device, place->data, sizeof place->data);
        if (place->bytes <= 0) return;
        place->due_ns = now_ns() + delay_ns;
        ++waiting;
    }
}

static void give_out(int device) {
    for (; waiting > 0 && ring[first].due_ns <= now_ns(); --waiting) {
        hand_on(device, ring[first].data, ring[first].bytes);
        first = (first + 1) % kFramesMax;
    }
}

static void pass(int from, int to) {
    static char data[kFrameBytesMax];
    for (ssize_t bytes; (bytes = read(from, data, sizeof data)) > 0;) hand_on(to, data, bytes);
}

int main(int argc, char** argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: delay_line FIRST SECOND MICROSECONDS\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_TIMERSLACK, 1000ul);
    const int64_t delay_ns = (int64_t)(atof(argv[3]) * 1e3);
    const struct sched_param priority = {.sched_priority = 1};
    sched_setscheduler(0, SCHED_FIFO, &priority);
    ring = calloc(kFramesMax, sizeof *ring);
    if (!ring) fail("memory");
    const int near = make_device(argv[1]), far = make_device(argv[2]);
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        struct pollfd both[] = {{.fd = far, .events = POLLIN},
                                {.fd = near, .events = waiting < kFramesMax ? POLLIN : 0}};
        const int64_t left = waiting > 0 ? ring[first].due_ns - now_ns() : 0;
        const struct timespec until_due = {left > 0 ? left / 1000000000 : 0,
                                           left > 0 ? left % 1000000000 : 0};
        if (ppoll(both, 2, waiting > 0 ? &until_due : NULL, NULL) < 0 && errno != EINTR) fail("ppoll");
        take_in(near, delay_ns);
        give_out(far);
        pass(far, near);
    }
}
