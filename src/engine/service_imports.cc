// ServiceEngine: regions of other nodes' ranks. Asked for when a block that is to be read first names one,
// imported once by the fabric, kept as long as there is room.
#include <cstring>

#include "engine/service_state.h"

namespace longshore {
namespace {

constexpr uint32_t kImportAttemptsMax = 3;

uint64_t key(ServiceAddress origin, LocalRank owner, RegionId region, uint32_t generation) {
    // One rank's regions have one name on its node, whichever service process tells of them.
    return mix64(uint64_t{origin.node.value} << 48 | uint64_t{owner.value} << 32 | region.value) ^
           mix64(generation);
}

bool is(const Import& m, ServiceAddress origin, LocalRank owner, RegionId region, uint32_t generation) {
    return m.state != Import::State::kUnused && m.origin.node == origin.node && m.owner == owner &&
           m.region == region && m.generation == generation;
}

}  // namespace

// The import that a block is read through, begun if need be. kNone: no room just now.
uint32_t ServiceEngine::State::import_for(ServiceAddress origin, LocalRank owner, RegionId region,
                                          uint32_t generation) {
    const uint64_t hash = key(origin, owner, region, generation);
    uint32_t& bucket = import_buckets[hash & (import_bucket_count - 1)];
    for (uint32_t i = bucket; i != kNone; i = imports[i].next)
        if (is(imports[i], origin, owner, region, generation)) {
            if (imports[i].state == Import::State::kFailed && imports[i].users == 0) {
                imports[i].origin = origin;  // another operation, another try, and who told may have gone
                ask_for(i);
            }
            return i;
        }

    uint32_t found = kNone;
    for (uint32_t looked = 0; looked < limits.imports_max && found == kNone; ++looked) {
        const uint32_t i = import_clock++ % limits.imports_max;
        Import& m = imports[i];
        if (m.state == Import::State::kUnused) {
            found = i;
        } else if (m.users == 0 && m.state == Import::State::kReady && !forget_pending) {
            forget = m.handle;
            forget_pending = true;
            found = i;
        } else if (m.users == 0 && m.state == Import::State::kFailed) {
            found = i;
        }
    }
    if (found == kNone) {
        ++counters->pool_full;
        return kNone;
    }
    Import& m = imports[found];
    if (m.state != Import::State::kUnused) {
        uint32_t* link =
            &import_buckets[key(m.origin, m.owner, m.region, m.generation) & (import_bucket_count - 1)];
        while (*link != found) link = &imports[*link].next;
        *link = m.next;
    }
    const bool listed = m.listed;
    m = Import{};
    m.listed = listed;
    m.origin = origin;
    m.owner = owner;
    m.region = region;
    m.generation = generation;
    m.next = bucket;
    bucket = found;
    ask_for(found);
    return found;
}

void ServiceEngine::State::ask_for(uint32_t i) {
    imports[i].state = Import::State::kRequest;
    if (!imports[i].listed) push_back(import_links, &to_request, i);
    imports[i].listed = true;
}

// Requests for descriptors into frames; the first descriptor that has come as an action.
bool ServiceEngine::State::next_import(Action* out, WakeSet* wake) {
    while (to_request.count != 0 && imports_requested < kRequestedMax) {
        const uint32_t i = to_request.head;
        Import& m = imports[i];
        if (m.state == Import::State::kRequest && peer(m.origin).lost) {
            pop_front(import_links, &to_request);
            m.listed = false;
            fail_import(i, OperationError::kServiceLost, wake);
            continue;
        }
        Message request;
        request.kind = MessageKind::kRegionRequest;
        request.region.owner = m.owner;
        request.region.region = m.region;
        request.region.generation = m.generation;
        if (m.state == Import::State::kRequest && !add(m.origin, request)) break;
        pop_front(import_links, &to_request);
        m.listed = false;
        if (m.state != Import::State::kRequest) continue;
        m.state = Import::State::kRequested;
        m.attempts = 0;
        ++imports_requested;
    }
    if (arrived.count == 0) return false;
    const uint32_t i = pop_front(import_links, &arrived);
    Import& m = imports[i];
    m.state = Import::State::kImporting;
    *out = Action{};
    out->kind = Action::Kind::kImport;
    out->id = i;
    out->peer = m.origin;
    out->name = {m.owner, m.region, m.generation};
    out->data = {descriptors[m.descriptor].bytes, descriptors[m.descriptor].count};
    return true;
}

void ServiceEngine::State::on_region(ServiceAddress from, const RegionMessage& r, WakeSet* wake) {
    const uint64_t hash = key(from, r.owner, r.region, r.generation);
    for (uint32_t i = import_buckets[hash & (import_bucket_count - 1)]; i != kNone; i = imports[i].next) {
        Import& m = imports[i];
        if (!is(m, from, r.owner, r.region, r.generation)) continue;
        if (m.state != Import::State::kRequested || r.descriptor.size() > kDescriptorBytesMax) return;
        if (r.descriptor.empty()) {  // the region is gone, and so are the operations that would read it
            --imports_requested;
            fail_import(i, OperationError::kUnreadable, wake);
            return;
        }
        m.descriptor = descriptors.take();  // there are as many as requests at a time
        DescriptorBytes& d = descriptors[m.descriptor];
        d.count = static_cast<uint32_t>(r.descriptor.size());
        memcpy(d.bytes, r.descriptor.data(), r.descriptor.size());
        m.state = Import::State::kArrived;
        m.attempts = 0;
        push_back(import_links, &arrived, i);
        return;
    }
}

void ServiceEngine::State::import_done(uint32_t i, ImportHandle region, bool ok, WakeSet* wake) {
    LONGSHORE_CHECK(i < limits.imports_max && imports[i].state == Import::State::kImporting);
    Import& m = imports[i];
    if (!ok && ++m.attempts < kImportAttemptsMax) {
        m.state = Import::State::kArrived;
        push_back(import_links, &arrived, i);
        return;
    }
    descriptors.give(m.descriptor);
    --imports_requested;
    if (!ok) {
        fail_import(i, OperationError::kUnreadable, wake);
        return;
    }
    m.state = Import::State::kReady;
    m.handle = region;
    while (m.waiting.count != 0) {
        make_ready(pop_front(queue.items, &m.waiting));
    }
}

// What waits for it will not be read.
void ServiceEngine::State::fail_import(uint32_t i, OperationError error, WakeSet* wake) {
    Import& m = imports[i];
    m.state = Import::State::kFailed;
    while (m.waiting.count != 0) {
        const uint32_t q = pop_front(queue.items, &m.waiting);
        if (!queue[q].cancelled) {
            fail_queued(q, error, wake);
            continue;
        }
        make_ready(q);
    }
}

void ServiceEngine::State::lose_imports(ServiceAddress lost, WakeSet* wake) {
    for (uint32_t i = 0; i < limits.imports_max; ++i) {
        Import& m = imports[i];
        if (m.origin != lost) continue;
        if (m.state != Import::State::kRequest && m.state != Import::State::kRequested) continue;
        if (m.state == Import::State::kRequested) --imports_requested;
        fail_import(i, OperationError::kServiceLost, wake);
    }
}

void ServiceEngine::State::unuse_import(uint32_t i) {
    LONGSHORE_CHECK(imports[i].users > 0);
    if (--imports[i].users == 0) --imports_used;
}

}  // namespace longshore
