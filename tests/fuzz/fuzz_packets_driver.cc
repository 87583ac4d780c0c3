// Packets, address lists, descriptors and messages, well formed and then mutated.
#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "dpu/session/session.h"
#include "dpu/transport/host_region.h"
#include "driver.h"
#include "fabric/address_book.h"
#include "fabric/network.h"
#include "fabric/shm/region.h"
#include "fabric/tcp/addresses.h"
#include "fabric/tcp/wire.h"
#include "fabric/ucx/packet.h"
#include "tasks/frames.h"

namespace {

using namespace longshore;
using Bytes = std::vector<std::byte>;

Bytes make_packet(Prng* random) {
    Packet p;
    p.kind = static_cast<PacketKind>(1 + random->below(7));
    p.from = {NodeId{static_cast<uint16_t>(random->below(3))},
              ServiceId{static_cast<uint16_t>(random->below(3))}};
    p.incarnation = static_cast<uint32_t>(random->below(3));
    p.taken = static_cast<uint32_t>(random->next());
    p.asks = random->chance(500);
    p.sequence = static_cast<uint32_t>(random->next());
    p.id = random->next();
    p.region = {LocalRank{static_cast<uint16_t>(random->next())},
                RegionId{static_cast<uint32_t>(random->next())}, 1};
    p.offset = random->next() >> random->below(64);
    p.bytes = random->next() >> random->below(64);
    p.result = static_cast<MoveResult>(random->below(3));
    p.is_open = random->chance(500);
    std::byte header[kPacketHeaderBytesMax];
    const auto bytes = encode_packet(p, header);
    return {bytes.begin(), bytes.end()};
}

Bytes make_stream(Prng* random) {
    Hello hello;
    hello.kind = static_cast<StreamKind>(1 + random->below(3));
    hello.incarnation = static_cast<uint32_t>(random->next());
    hello.connection = random->next();
    Challenge challenge;
    challenge.incarnation = hello.incarnation;
    DataHeader header;
    header.ahead = random->chance(500);
    header.bytes = 1 + static_cast<uint32_t>(random->below(kDataBytesMax));
    header.is_open = random->chance(500);
    header.id = random->next() >> random->below(64);
    Talk talk;
    talk.kind = static_cast<TalkKind>(1 + random->below(5));
    const Bytes frame(random->below(kFrameBytesMax), std::byte{7});
    talk.frame = frame;
    talk.id = talk.offset = random->next();
    talk.bytes = talk.used = random->next() >> random->below(64);
    Bytes out;
    switch (random->below(4)) {
        case 0:
            out.resize(kHelloBytes);
            encode_hello(hello, std::span<std::byte, kHelloBytes>(out.data(), kHelloBytes));
            break;
        case 1:
            out.resize(kChallengeBytes);
            encode_challenge(challenge, std::span<std::byte, kChallengeBytes>(out.data(), kChallengeBytes));
            break;
        case 2:
            out.resize(kDataHeaderBytes);
            encode_data(header, std::span<std::byte, kDataHeaderBytes>(out.data(), kDataHeaderBytes));
            break;
        default:
            out.resize(kTalkBytesMax);
            out.resize(encode_talk(talk, out));
    }
    return out;
}

Bytes make_tcp_addresses(Prng* random) {
    std::vector<TcpAddress> addresses(1 + random->below(4));
    for (TcpAddress& a : addresses) {
        a.v6 = random->chance(300);
        a.prefix = static_cast<uint8_t>(random->below(33));
        a.speed_mbps = static_cast<uint32_t>(random->next());
        for (uint8_t& byte : std::span(a.bytes).first(a.v6 ? 16 : 4))
            byte = static_cast<uint8_t>(random->next());
    }
    return encode_addresses(addresses, static_cast<uint16_t>(1 + random->below(65535)));
}

Bytes make_addresses(Prng* random) {
    Bytes all;
    for (uint64_t count = random->below(4); count > 0; --count)
        append_address(Bytes(random->below(300), static_cast<std::byte>(random->next())), &all);
    return all;
}

Bytes make_entry(Prng* random) {
    NodeEntry entry;
    entry.address.name = unpack_name({static_cast<uint8_t>(random->next())});
    entry.address.services = static_cast<uint16_t>(random->below(4));
    memset(entry.address.host, 'h', random->below(sizeof entry.address.host));
    for (uint64_t count = random->below(4); count > 0; --count)
        entry.services.emplace_back(random->below(60), static_cast<std::byte>(random->below(2)));
    entry.agent.resize(random->below(40));
    entry.tasks.resize(random->below(40));
    return encode_entry(entry);
}

Bytes make_span(Prng* random) {
    Bytes out(kProcessSpanBytes);
    const uint64_t bytes = random->next() >> random->below(64);
    encode_span({1 + static_cast<uint32_t>(random->below(9)), 7, random->next() >> random->below(64), bytes},
                out.data());
    return out;
}

Bytes make_exported(Prng* random) {
    ExportedMemory memory;
    memory.ucx_major = 1;
    memory.ucx_minor = static_cast<uint8_t>(random->next());
    memory.handle.assign(random->below(kExportedBytesMax), static_cast<std::byte>(random->next()));
    return encode_exported(memory);
}

Bytes make_host_region(Prng* random) {
    HostRegion region;
    region.node = NodeId{static_cast<uint16_t>(random->below(3))};
    region.address = random->next() >> random->below(64);
    region.bytes = random->next() >> random->below(64);
    region.key.assign(1 + random->below(kHostKeyBytesMax), static_cast<std::byte>(random->next()));
    region.exported = make_exported(random);
    region.heap_unit = static_cast<uint32_t>(random->next());
    return encode_host_region(region);
}

Bytes some(Prng* random, uint64_t at_most) {
    return Bytes(random->below(at_most), static_cast<std::byte>(random->next()));
}

Bytes make_hello(Prng* random) {
    SessionHello m;
    m.job = random->next();
    m.size = 1 + static_cast<uint32_t>(random->below(9));
    m.rank = static_cast<uint32_t>(random->below(m.size + 1));
    m.cores.assign(random->below(20), 'a');
    m.memory_mode = static_cast<uint8_t>(random->below(4));
    m.agent = some(random, 300);
    m.probe = make_host_region(random);
    return encode(m);
}

Bytes make_post(Prng* random) {
    SessionPost m;
    m.collective = static_cast<uint8_t>(random->below(12));
    m.send_bytes = random->next() >> random->below(64);
    m.recv_bytes = random->next() >> random->below(64);
    m.send_blocks.resize(random->below(5), {random->next(), random->next()});
    m.recv_blocks.resize(random->below(5));
    m.data = some(random, 100);
    m.copies = static_cast<SessionCopies>(random->below(4));
    return encode(m);
}

Bytes make_message(Prng* random) {
    switch (random->below(10)) {
        case 0:
            return encode(SessionExchange{random->next(), true, some(random, 100)});
        case 1:
            return encode(SessionReady{1, true, 0, 1, 2, false, true, true, "why"});
        case 2:
            return encode(SessionOpened{1, random->next(), random->next() >> random->below(64),
                                        static_cast<uint32_t>(random->next()), some(random, 300),
                                        make_exported(random)});
        case 3:
            return encode(SessionGroup{random->below(3), 0, 2});
        case 4:
            return encode(SessionDone{1, -2, random->next(), random->next(), random->next(), random->next()});
        case 5:
            return encode(SessionAttend{static_cast<uint32_t>(random->next()), random->below(2) != 0});
        case 6:
            return encode(SessionCopied{static_cast<uint32_t>(random->next()), random->below(2) != 0});
        case 7:
            return encode(HandedCopy{1, 2, static_cast<uint32_t>(random->below(9)),
                                     random->next() >> random->below(64), random->next() >> random->below(64),
                                     random->next() >> random->below(64)});
        case 8: {
            SessionTasks tasks{random->next(), {}, static_cast<uint32_t>(random->next())};
            tasks.token.fill(static_cast<uint8_t>(random->next()));
            return encode(tasks);
        }
        default:
            return encode(SessionWelcome{random->chance(500), std::string(random->below(40), 'w')});
    }
}

Bytes make_task_frame(Prng* random) {
    tasks::FrameHeader header;
    header.kind =
        static_cast<tasks::FrameKind>(random->chance(500) ? random->below(6) : 63 + random->below(7));
    header.body_bytes = static_cast<uint32_t>(random->next() >> (32 + random->below(32)));
    header.payload_bytes = random->next() >> random->below(64);
    tasks::FrameHeaderBytes bytes;
    tasks::encode_header(header, bytes);
    tasks::OpenFrame open;
    open.plugin.assign(1 + random->below(30), 'p');
    open.cores.assign(random->below(8), '1');
    open.environment.resize(random->below(4), "A=B");
    open.processes = 1 + static_cast<uint32_t>(random->below(4));
    tasks::LoadedFrame loaded;
    loaded.text.assign(random->below(30), 't');
    loaded.table.functions_count = static_cast<uint32_t>(random->below(5));
    tasks::TaskFrame task;
    tasks::Submission& submission = task.submission;
    submission.arguments_bytes = static_cast<uint32_t>(random->below(40));
    submission.buffers_count = static_cast<uint32_t>(random->below(5));
    for (uint32_t i = 0; i < submission.buffers_count; ++i)
        submission.buffers[i] = {random->next(), random->next(), random->next() >> random->below(64),
                                 static_cast<uint32_t>(random->below(6)), 0};
    memset(submission.arguments, 3, submission.arguments_bytes);
    switch (random->below(5)) {
        case 0:
            return {bytes.begin(), bytes.end()};
        case 1:
            return tasks::encode(open);
        case 2:
            return tasks::encode(loaded);
        case 3:
            return tasks::encode(tasks::ResultFrame{random->next(), -5, "why"});
        default:
            return tasks::encode(task);
    }
}

void damage(Prng* random, Bytes* bytes) {
    for (uint64_t changes = random->below(5); changes > 0; --changes) {
        const size_t at = random->below(bytes->size() + 1);
        switch (random->below(3)) {
            case 0:
                bytes->insert(bytes->begin() + static_cast<ptrdiff_t>(at),
                              static_cast<std::byte>(random->next()));
                break;
            case 1:
                bytes->resize(at);
                break;
            default:
                if (at < bytes->size()) (*bytes)[at] = static_cast<std::byte>(random->next());
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    const auto driven = fuzz::drive(argc, argv, 3, [](Prng& random) {
        constexpr Bytes (*kMakers[])(Prng*) = {
            make_packet, make_addresses, make_span,   make_host_region,   make_exported, make_hello,
            make_post,   make_message,   make_stream, make_tcp_addresses, make_entry,    make_task_frame};
        Bytes bytes = kMakers[random.below(std::size(kMakers))](&random);
        damage(&random, &bytes);
        return bytes;
    });
    printf("%llu inputs\n", static_cast<unsigned long long>(driven.inputs));
}
