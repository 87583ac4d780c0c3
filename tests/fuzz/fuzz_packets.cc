// What comes over a network before anybody knows from whom: headers of packets, what ranks and their
// stand-ins on a DPU say; and what supervisors pass on: addresses and descriptors of memory. What is taken
// for one is written back as it was.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "dpu/session/session.h"
#include "dpu/transport/host_region.h"
#include "fabric/address_book.h"
#include "fabric/network.h"
#include "fabric/shm/region.h"
#include "fabric/tcp/addresses.h"
#include "fabric/tcp/wire.h"
#include "fabric/ucx/packet.h"
#include "tasks/frames.h"

namespace {

using namespace longshore;

void require(bool condition) {
    if (!condition) abort();
}

void try_packet(std::span<const std::byte> bytes) {
    Packet packet;
    if (!decode_packet(bytes, &packet)) return;
    std::byte header[kPacketHeaderBytesMax];
    const std::span<const std::byte> again = encode_packet(packet, header);
    require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
}

bool is_same(std::span<const std::byte> a, std::span<const std::byte> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

void try_streams(std::span<const std::byte> bytes) {
    ServiceId service;
    if (bytes.size() == kPrefaceBytes && decode_preface(bytes.first<kPrefaceBytes>(), &service)) {
        std::array<std::byte, kPrefaceBytes> again;
        encode_preface(service, again);
        require(is_same(again, bytes));
    }
    Hello hello;
    if (bytes.size() == kHelloBytes && decode_hello(bytes.first<kHelloBytes>(), &hello)) {
        std::array<std::byte, kHelloBytes> again;
        encode_hello(hello, again);
        require(is_same(again, bytes));
    }
    Challenge challenge;
    if (bytes.size() == kChallengeBytes && decode_challenge(bytes.first<kChallengeBytes>(), &challenge)) {
        std::array<std::byte, kChallengeBytes> again;
        encode_challenge(challenge, again);
        require(is_same(again, bytes));
    }
    DataHeader header;
    if (bytes.size() == kDataHeaderBytes && decode_data(bytes.first<kDataHeaderBytes>(), &header)) {
        require(header.bytes <= kDataBytesMax);
        std::array<std::byte, kDataHeaderBytes> again;
        encode_data(header, again);
        require(is_same(again, bytes));
    }
    Talk talk;
    if (decode_talk(bytes, &talk)) {
        std::vector<std::byte> again(kTalkBytesMax);
        require(is_same(std::span(again).first(encode_talk(talk, again)), bytes));
    }
    std::vector<TcpAddress> addresses;
    uint16_t port = 0;
    if (decode_addresses(bytes, &addresses, &port)) {
        require(is_same(encode_addresses(addresses, port), bytes));
        const std::vector<TcpAddress> own(addresses.begin(), addresses.begin() + 1);
        order_addresses(own, &addresses);
        sockaddr_storage storage;
        for (const TcpAddress& address : addresses) require(socket_address(address, port, &storage) != 0);
    }
}

void try_addresses(std::span<const std::byte> bytes, size_t count) {
    std::vector<std::vector<std::byte>> addresses;
    if (!split_addresses(bytes, count, &addresses)) return;
    require(addresses.size() == count);
    std::vector<std::byte> again;
    for (const auto& address : addresses) append_address(address, &again);
    require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
}

void try_entry(std::span<const std::byte> bytes) {
    NodeEntry entry;
    if (!decode_entry(bytes, &entry)) return;
    require(is_same(encode_entry(entry), bytes));
}

void try_span(std::span<const std::byte> bytes) {
    ProcessSpan span;
    if (!decode_span(bytes, &span)) return;
    require(span.base + span.bytes >= span.base && span.shared.end <= span.bytes);
}

void try_host_region(std::span<const std::byte> bytes) {
    HostRegion region;
    if (!decode_host_region(bytes, &region)) return;
    require(region.address + region.bytes >= region.address);
    const std::vector<std::byte> again = encode_host_region(region);
    require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
}

void try_exported(std::span<const std::byte> bytes) {
    ExportedMemory memory;
    if (!decode_exported(bytes, &memory)) return;
    require(!memory.handle.empty() && memory.handle.size() < bytes.size());
    const std::vector<std::byte> again = encode_exported(memory);
    require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
}

// Truth has more than one spelling (anything but 1 is false), so what is written back need only mean the
// same.
template <class Message>
void try_message(std::span<const std::byte> bytes) {
    Message message, again;
    if (!decode(bytes, &message)) return;
    const std::vector<std::byte> written = encode(message);
    require(written.size() == bytes.size() && decode(written, &again) && encode(again) == written);
}

template <class Frame>
void try_frame(std::span<const std::byte> bytes) {
    Frame frame;
    if (tasks::decode(bytes, &frame)) require(is_same(tasks::encode(frame), bytes));
}

// Between a carrier of tasks and the process that runs them on another node.
void try_task_frames(std::span<const std::byte> bytes) {
    tasks::FrameHeader header;
    if (bytes.size() == tasks::kFrameHeaderBytes &&
        tasks::decode_header(bytes.first<tasks::kFrameHeaderBytes>(), &header)) {
        require(header.body_bytes <= tasks::kFrameBodyBytesMax &&
                header.payload_bytes <= kSharedFileBytesMax);
        tasks::FrameHeaderBytes again;
        tasks::encode_header(header, again);
        require(is_same(again, bytes));
    }
    try_frame<tasks::OpenFrame>(bytes);
    try_frame<tasks::LoadedFrame>(bytes);
    try_frame<tasks::ClientFrame>(bytes);
    try_frame<tasks::ServingFrame>(bytes);
    try_frame<tasks::ResultFrame>(bytes);
    try_frame<tasks::TaskFrame>(bytes);
    tasks::TaskFrame task;
    if (!tasks::decode(bytes, &task)) return;
    require(tasks::bytes_that_go(task.submission) <= kSharedFileBytesMax &&
            tasks::bytes_that_come(task.submission) <= kSharedFileBytesMax);
}

void try_messages(std::span<const std::byte> bytes) {
    try_message<SessionHello>(bytes);
    try_message<SessionWelcome>(bytes);
    try_message<SessionTasks>(bytes);
    try_message<SessionCopier>(bytes);
    try_message<SessionExchange>(bytes);
    try_message<SessionReady>(bytes);
    try_message<SessionOpened>(bytes);
    try_message<SessionGroup>(bytes);
    try_message<SessionPost>(bytes);
    try_message<SessionDone>(bytes);
    try_message<SessionLine>(bytes);
    try_message<SessionAttend>(bytes);
    try_message<SessionCopied>(bytes);
    try_message<HandedCopy>(bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    // A copy of its own size, so that a sanitizer sees every byte beyond it.
    const std::unique_ptr<std::byte[]> copy(new std::byte[size]);
    if (size != 0) memcpy(copy.get(), data, size);
    const std::span<const std::byte> bytes(copy.get(), size);
    try_packet(bytes);
    try_streams(bytes);
    for (size_t count = 0; count < 4; ++count) try_addresses(bytes, count);
    try_entry(bytes);
    try_span(bytes);
    try_host_region(bytes);
    try_exported(bytes);
    try_messages(bytes);
    try_task_frames(bytes);
    return 0;
}
