// Blocks of malloc that are freed and made larger and smaller by libc's own functions, which the program has
// found by another way than their names: on libc's handle, or by a plug-in that looks there first.
// other_frees WHAT [PLUG-IN]
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>

#include <cstring>
#include <vector>

#include "base/prng.h"
#include "check.h"
#include "heap_file.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kFileMost = 160 * kMiB;
int rank, size;

struct Others {
    void (*free)(void*) = nullptr;
    void* (*realloc)(void*, size_t) = nullptr;
    size_t (*usable)(void*) = nullptr;
} others;

template <class Function>
void find(void* handle, const char* name, Function** out) {
    *out = reinterpret_cast<Function*>(dlsym(handle, name));
    CHECK(*out != nullptr);
}

void exchange() {
    const int count = 100'000;
    auto* const sent = static_cast<char*>(malloc(static_cast<size_t>(count * size)));
    auto* const received = static_cast<char*>(malloc(static_cast<size_t>(count * size)));
    for (int round = 0; round < 10; ++round) {
        for (int to = 0; to < size; ++to) fill(sent + to * count, count, rank, to, round);
        MPI_Alltoall(sent, count, MPI_BYTE, received, count, MPI_BYTE, MPI_COMM_WORLD);
        for (int from = 0; from < size; ++from)
            CHECK(is_filled(received + from * count, count, from, rank, round));
    }
    free(sent);
    free(received);
}

char* filled(size_t bytes, int seed) {
    auto* const block = static_cast<char*>(malloc(bytes));
    fill(block, bytes, rank, 1, seed);
    CHECK(is_shared(block));
    return block;
}

void frees() {
    for (int i = 0; i < 400; ++i) others.free(filled(kMiB + static_cast<size_t>(i % 7) * 4096, i));
    void* aligned = nullptr;
    for (size_t alignment = 16; alignment <= 8 * kMiB; alignment *= 2) {
        CHECK(posix_memalign(&aligned, alignment, 300'000) == 0);
        memset(aligned, 1, 300'000);
        CHECK(others.usable(aligned) >= 300'000);
        others.free(aligned);
    }
    others.free(calloc(1000, 1000));
    if (heap_file().bytes > kFileMost) fprintf(stderr, "the heap has %zu MiB\n", heap_file().bytes / kMiB);
    CHECK(heap_file().bytes <= kFileMost);
}

void grows() {
    for (int i = 0; i < 60; ++i) {
        char* const before = filled(kMiB, 1);
        char* const block = filled(kMiB, 2);
        char* const behind = filled(kMiB, 3);
        auto* const grown = static_cast<char*>(others.realloc(block, 3 * kMiB));
        CHECK(grown && is_filled(grown, kMiB, rank, 1, 2));
        memset(grown, 0x5a, 3 * kMiB);
        CHECK(is_filled(before, kMiB, rank, 1, 1) && is_filled(behind, kMiB, rank, 1, 3));
        auto* const again = static_cast<char*>(realloc(grown, 4 * kMiB));
        CHECK(again && again[3 * kMiB - 1] == 0x5a);
        i % 2 == 0 ? free(again) : others.free(again);
        free(before);
        others.free(behind);
    }
    if (heap_file().bytes > kFileMost) fprintf(stderr, "the heap has %zu MiB\n", heap_file().bytes / kMiB);
    CHECK(heap_file().bytes <= kFileMost);
}

void shrinks() {
    for (int i = 0; i < 60; ++i) {
        char* const block = filled(kMiB, 4);
        CHECK(others.usable(block) >= kMiB);
        auto* const less = static_cast<char*>(others.realloc(block, 300'000));
        CHECK(less && is_filled(less, 300'000, rank, 1, 4));
        CHECK(malloc_usable_size(less) >= 300'000 && malloc_usable_size(less) < kMiB);
        char* const next = filled(kMiB, 5);
        auto* const more = i % 3 == 0 ? static_cast<char*>(realloc(less, 2 * kMiB)) : less;
        CHECK(is_filled(more, 300'000, rank, 1, 4) && is_filled(next, kMiB, rank, 1, 5));
        i % 2 == 0 ? free(more) : others.free(more);
        free(next);
    }
    if (heap_file().bytes > kFileMost) fprintf(stderr, "the heap has %zu MiB\n", heap_file().bytes / kMiB);
    CHECK(heap_file().bytes <= kFileMost);
}

// Blocks of any size and age, each looked at before it goes, by whichever way.
void* churn(void* seed) {
    longshore::Prng prng(*static_cast<int*>(seed));
    struct Block {
        char* at;
        size_t bytes;
        int seed;
    };
    std::vector<Block> blocks;
    for (int i = 0; i < 3000; ++i) {
        if (blocks.size() < 30 && prng.below(2) == 0) {
            const size_t bytes = 70'000 + prng.below(600'000);
            auto* const at = static_cast<char*>(malloc(bytes));
            fill(at, bytes / 64, rank, 2, i);
            blocks.push_back({at, bytes / 64, i});
        } else if (!blocks.empty()) {
            const size_t which = prng.below(blocks.size());
            Block& b = blocks[which];
            CHECK(is_filled(b.at, b.bytes, rank, 2, b.seed));
            if (const uint64_t what = prng.below(4); what < 2) {
                const size_t bytes = 70'000 + prng.below(600'000);
                b.at = static_cast<char*>(what == 0 ? realloc(b.at, bytes) : others.realloc(b.at, bytes));
                b.bytes = std::min(b.bytes, bytes);
                CHECK(is_filled(b.at, b.bytes, rank, 2, b.seed));
            } else {
                what == 2 ? free(b.at) : others.free(b.at);
                blocks.erase(blocks.begin() + static_cast<long>(which));
            }
        }
    }
    for (const Block& b : blocks) others.free(b.at);
    return nullptr;
}

void churns() {
    int seeds[2] = {2 * rank + 1, 2 * rank + 2};
    pthread_t other;
    CHECK(pthread_create(&other, nullptr, churn, &seeds[0]) == 0);
    churn(&seeds[1]);
    pthread_join(other, nullptr);
    if (heap_file().bytes > kFileMost) fprintf(stderr, "the heap has %zu MiB\n", heap_file().bytes / kMiB);
    CHECK(heap_file().bytes <= kFileMost);
}

}  // namespace

PROGRAM(other_frees) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc > 1);
    if (argc > 2) {
        void* const plug_in = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
        CHECK(plug_in != nullptr);
        find(plug_in, "deep_free", &others.free);
        find(plug_in, "deep_realloc", &others.realloc);
        find(plug_in, "deep_usable", &others.usable);
    } else {
        void* const libc = dlopen("libc.so.6", RTLD_NOW);
        CHECK(libc != nullptr);
        find(libc, "free", &others.free);
        find(libc, "realloc", &others.realloc);
        find(libc, "malloc_usable_size", &others.usable);
    }
    const std::string what = argv[1];
    exchange();
    if (what == "frees") frees();
    if (what == "grows") grows();
    if (what == "shrinks") shrinks();
    if (what == "churns") churns();
    exchange();
    return finish("other_frees");
}
