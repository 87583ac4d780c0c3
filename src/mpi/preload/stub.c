/* liblongshore.so, what LD_PRELOAD names. No MPI in it: it loads into every program, and does nothing until
 * the first MPI call. Then it sees which MPI is mapped, opens the shim core made for it and fills the tables
 * through which its symbols jump (stub_trampolines.S).
 *
 * It shows MPI_X for those who call MPI and PMPI_X for those who come from there: the Fortran layers of the
 * MPI, and tools that define an MPI_X of their own. Before us in the order of symbols a tool calls our
 * PMPI_X; behind us our MPI_X hands the call to the tool's first. Without a core, or with
 * LONGSHORE_OFFLOAD=off, both lead to where they would without us. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory/adopt.h"
#include "memory/interpose.h"
#include "mpi/core_api.h"
#include "mpi/preload/stub_pmix.h"

#define HIDDEN __attribute__((visibility("hidden")))
HIDDEN extern const void* longshore_calls[LONGSHORE_ENTRY_COUNT];   /* of MPI_X */
HIDDEN extern const void* longshore_entries[LONGSHORE_ENTRY_COUNT]; /* of PMPI_X */
HIDDEN void longshore_resolve(void);
static const void* natives[LONGSHORE_ENTRY_COUNT]; /* the MPI's own PMPI_X */

static const char* const kNames[LONGSHORE_ENTRY_COUNT] = {
#define LONGSHORE_ENTRY(name) "P" #name,
#include "mpi/entry_points.inc"
#undef LONGSHORE_ENTRY
};

/* The tables: as they were made; filled, but for what the MPI lacks where Longshore is off; all filled. */
enum { kUntouched, kResolving, kResolved, kCompleting, kCompleted };
static atomic_int state = kUntouched;
static const longshore_core_api* core = NULL;

static const char* base_name(const char* path) {
    const char* slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* What a mapped library calls itself. Its file may be found by a link without a version, or be a copy under any
 * name. */
static const char* soname_of(ElfW(Addr) base, const ElfW(Dyn) * dynamic, const char* path) {
    const char* strings = NULL;
    const ElfW(Dyn)* name = NULL;
    for (; dynamic && dynamic->d_tag != DT_NULL; ++dynamic) {
        if (dynamic->d_tag == DT_SONAME) name = dynamic;
        if (dynamic->d_tag == DT_STRTAB) strings = (const char*)dynamic->d_un.d_ptr;
    }
    if (!name || !strings) return base_name(path);
    if ((uintptr_t)strings < base) strings += base; /* not every loader has added it */
    return strings + name->d_un.d_val;
}

static const char* soname_of_map(const struct link_map* map) {
    return soname_of(map->l_addr, map->l_ld, map->l_name);
}

static const char* soname_of_object(const struct dl_phdr_info* info) {
    const ElfW(Dyn)* dynamic = NULL;
    for (int i = 0; i < info->dlpi_phnum; ++i)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn)*)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    return soname_of(info->dlpi_addr, dynamic, info->dlpi_name);
}

static int is_mpi(const char* soname) {
    return strncmp(soname, "libmpi.so", 9) == 0 || strncmp(soname, "libmpich.so", 11) == 0 ||
           strncmp(soname, "libmpi_abi.so", 13) == 0;
}

/* The MPI library. More than one match means that we cannot know whose calls these are. */
struct search {
    char path[PATH_MAX];
    int found;
};

static int look_at_object(struct dl_phdr_info* info, size_t size, void* user) {
    struct search* search = user;
    (void)size;
    if (!info->dlpi_name[0] || !is_mpi(soname_of_object(info))) return 0;
    if (strlen(info->dlpi_name) < sizeof search->path) {
        strcpy(search->path, info->dlpi_name);
        ++search->found;
    }
    return 0;
}

/* A handle on the mapped MPI, in global scope afterwards so that the core finds its symbols. An MPI that a
 * plug-in opened with RTLD_LOCAL calls us too, but RTLD_NEXT does not lead back to it. */
static void* open_mpi(char* path, size_t bytes) {
    struct search search = {.found = 0};
    dl_iterate_phdr(look_at_object, &search);
    void* next = dlsym(RTLD_NEXT, "PMPI_Init");
    Dl_info info;
    if (next && dladdr(next, &info) && info.dli_fname && strlen(info.dli_fname) < bytes) {
        strcpy(path, info.dli_fname);
        return dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
    }
    if (search.found != 1 || strlen(search.path) >= bytes) return NULL;
    strcpy(path, search.path);
    return dlopen(search.path, RTLD_NOLOAD | RTLD_LAZY | RTLD_GLOBAL);
}

/* The ABI that a core is built for, by the library's major version and a symbol of its own. Open MPI 4 and 5
 * share one, and MPICH 4, 5 and its relatives another. MPI 5 has defined one for all; its library has its own
 * name. */
static const char* flavour_of(void* mpi) {
    const struct link_map* map = NULL;
    if (dlinfo(mpi, RTLD_DI_LINKMAP, &map) != 0) return NULL;
    const char* name = soname_of_map(map);
    if (strncmp(name, "libmpi_abi.so", 13) == 0)
        return strcmp(name + 13, ".1") == 0 || strncmp(name + 13, ".1.", 3) == 0 ? "abi" : NULL;
    if (strstr(name, ".so.40") && dlsym(mpi, "ompi_mpi_comm_world")) return "openmpi";
    if (strstr(name, ".so.12") && dlsym(mpi, "MPIR_Dup_fn")) return "mpich";
    return NULL;
}

/* The spellings that src/base/settings.cc reads as off; a malformed value is for the core to complain about.
 */
static int offload_wanted(void) {
    const char* text = getenv("LONGSHORE_OFFLOAD");
    return !text || (strcmp(text, "off") != 0 && strcmp(text, "0") != 0);
}

/* With statistics or a timeline the core counts, although it carries nothing. */
static int core_wanted(void) {
    const char* stats = getenv("LONGSHORE_STATS");
    const char* trace = getenv("LONGSHORE_TRACE");
    return offload_wanted() || (stats && *stats) || (trace && *trace);
}

/* Of a job's processes the first speaks for all, as far as launchers tell which one that is. */
static int speaks(void) {
    static const char* const kRanks[] = {"PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof kRanks / sizeof *kRanks; ++i) {
        const char* rank = getenv(kRanks[i]);
        if (rank) return strcmp(rank, "0") == 0;
    }
    return 1;
}

/* Why this job runs on plain MPI. */
__attribute__((format(printf, 1, 2))) static void tell(const char* format, ...) {
    if (!speaks()) return;
    char line[2 * PATH_MAX + 256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "longshore: %s; the job runs with plain MPI\n", line);
}

/* 'longshore run' could see before the program ran that its MPI has no core, and has said so. */
static int is_told(const char* flavour) {
    const char* told = getenv("LONGSHORE_INTERNAL_MISSING_CORE");
    return told && strcmp(told, flavour ? flavour : "none") == 0;
}

/* The core for `flavour`, which the MPI at `mpi_path` has, or null after saying why there is none. */
static const longshore_core_api* open_core(const char* flavour, const char* mpi_path) {
    Dl_info self;
    if (!flavour) {
        if (!is_told(flavour))
            tell("there is no shim for this MPI, %s ('longshore doctor' lists what there is)", mpi_path);
        return NULL;
    }
    if (!dladdr((void*)&longshore_entries, &self) || !self.dli_fname) return NULL;
    /* The file itself: where it was preloaded by way of a symbolic link, its cores are not beside the link. */
    char path[PATH_MAX], real[PATH_MAX];
    const char* own = realpath(self.dli_fname, real) ? real : self.dli_fname;
    int directory = (int)(base_name(own) - own);
    int length = snprintf(path, sizeof path, "%.*sliblongshore-%s.so", directory, own, flavour);
    if (length < 0 || (size_t)length >= sizeof path) return NULL;
    if (access(path, R_OK) != 0) {
        if (!is_told(flavour))
            tell("the shim for this MPI, %s, is not there: no %s ('longshore doctor' says what to do)", mpi_path,
                 path);
        return NULL;
    }
    void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        tell("the shim does not fit this MPI, %s: %s", mpi_path, dlerror());
        return NULL;
    }
    static const longshore_stub_api stub = {
        LONGSHORE_CORE_VERSION, LONGSHORE_ENTRY_COUNT,   natives,
        longshore_heap_get,     longshore_share_large_blocks, longshore_share_no_more,
        longshore_heap_allocate, longshore_heap_release,
        longshore_heap_holds,   longshore_heap_used,     longshore_adopt,
        longshore_heap_keep,    longshore_heap_open_buffer, longshore_heap_close_buffer,
        longshore_heap_adopted_forks, longshore_why_malloc_is_not_shared,
    };
    typedef const longshore_core_api* open_function(const longshore_stub_api*);
    open_function* open = (open_function*)dlsym(handle, "longshore_core_open");
    const longshore_core_api* api = open ? open(&stub) : NULL;
    if (!api || api->version != LONGSHORE_CORE_VERSION || api->entry_count != LONGSHORE_ENTRY_COUNT) {
        tell("%s does not belong to this liblongshore.so", path);
        return NULL;
    }
    if (strcmp(api->flavour, flavour) != 0) {
        tell("%s is made for another kind of MPI (%s) than %s (%s)", path, api->flavour, mpi_path, flavour);
        return NULL;
    }
    /* 'longshore run' could not see it before the program ran. */
    if (getenv("LONGSHORE_INTERNAL_SAY_MPI") && speaks())
        fprintf(stderr, "longshore: the program uses %s: shim liblongshore-%s.so\n", base_name(mpi_path), flavour);
    return api;
}

/* Somebody calls a function and the process has none: only a program that found our symbol by name. */
static int absent(void) {
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&said))
        fprintf(stderr, "longshore: an MPI function is called that no MPI library loaded here has\n");
    return 16; /* MPI_ERR_OTHER, in both MPIs */
}

/* Whether an MPI_X found behind us is not the MPI's own, where it is another name of PMPI_X. */
static int is_a_tools(const void* function, const void* native) {
    if (!function || function == native) return 0;
    Dl_info info, of_native;
    struct link_map* map = NULL;
    if (!dladdr1(function, &info, (void**)&map, RTLD_DL_LINKMAP) || !map || is_mpi(soname_of_map(map))) return 0;
    return !native || !dladdr(native, &of_native) || info.dli_fbase != of_native.dli_fbase;
}

static void set(const void** place, const void* function) {
    if (function) __atomic_store_n(place, function, __ATOMIC_RELEASE);
}

/* What neither the MPI nor a core has: `entries` of the core for those it lacks, or null. Whoever calls such a
 * function has found it by its name here, and relies on it. */
static void fill_missing(const void* const* entries) {
    for (int i = 0; i < LONGSHORE_ENTRY_COUNT; ++i) {
        if (natives[i]) continue;
        const void* function = entries && entries[i] ? entries[i] : (const void*)absent;
        set(&longshore_entries[i], function);
        if (!dlsym(RTLD_NEXT, kNames[i] + 1)) set(&longshore_calls[i], function);
    }
}

static void fill(void) {
    char path[PATH_MAX];
    void* mpi = open_mpi(path, sizeof path);
    for (int i = 0; i < LONGSHORE_ENTRY_COUNT; ++i) {
        if (mpi) natives[i] = dlsym(mpi, kNames[i]);
        if (!natives[i]) natives[i] = dlsym(RTLD_NEXT, kNames[i]);
    }
    core = mpi && core_wanted() ? open_core(flavour_of(mpi), path) : NULL;
    if (core) {
        if (offload_wanted()) longshore_serve_large_blocks();
        longshore_set_pmix_hook(core->before_pmix_commit);
    }
    for (int i = 0; i < LONGSHORE_ENTRY_COUNT; ++i) {
        const void* entry = core ? core->entries[i] : NULL;
        const void* next = dlsym(RTLD_NEXT, kNames[i] + 1);
        if (!next && mpi) next = dlsym(mpi, kNames[i] + 1);
        set(&longshore_entries[i], entry ? entry : natives[i]);
        set(&longshore_calls[i], entry && !is_a_tools(next, natives[i]) ? entry : next);
    }
    /* Where Longshore is off, the core is not opened before such a function is called. */
    if (core || core_wanted()) fill_missing(core ? core->entries : NULL);
}

/* With Longshore off: a function that the MPI lacks is called. The core has it by those that the MPI has. */
static void complete(void) {
    char path[PATH_MAX];
    void* mpi = open_mpi(path, sizeof path);
    const longshore_core_api* late = mpi ? open_core(flavour_of(mpi), path) : NULL;
    fill_missing(late ? late->entries : NULL);
}

/* A program that was linked to an MPI can have its buffers shared from the start; one that opens an MPI later only
 * those that it allocates then. */
__attribute__((constructor)) static void begin(void) {
    struct search search = {.found = 0};
    dl_iterate_phdr(look_at_object, &search);
    if (search.found == 1 && offload_wanted()) longshore_serve_large_blocks();
}

/* Takes the tables from one state to another, by way of a third in which others wait: so the thread must not be
 * cancelled there. False: somebody else has. */
static int advance(int from, int busy, int to, void (*how)(void)) {
    int cancel = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    const int is_mine = atomic_compare_exchange_strong(&state, &from, busy);
    if (is_mine) {
        how();
        atomic_store(&state, to);
    }
    pthread_setcancelstate(cancel, NULL);
    return is_mine;
}

void longshore_resolve(void) {
    const int found = atomic_load(&state);
    if (found == kUntouched && advance(kUntouched, kResolving, kResolved, fill)) return;
    if (found == kResolved && advance(kResolved, kCompleting, kCompleted, complete)) return;
    for (int now = found; now == kUntouched || now == kResolving || now == kCompleting; now = atomic_load(&state))
        sched_yield(); /* another thread is at it */
}

static int is_resolved(void) {
    const int now = atomic_load(&state);
    return now != kUntouched && now != kResolving;
}

__attribute__((visibility("default"))) int longshore_get_counters(longshore_counters* out) {
    if (is_resolved() && core) return core->get_counters(out);
    if (out) memset(out, 0, sizeof *out);
    return -1;
}

__attribute__((visibility("default"))) int longshore_get_times(longshore_times* out) {
    if (is_resolved() && core) return core->get_times(out);
    if (out) memset(out, 0, sizeof *out);
    return -1;
}

__attribute__((visibility("default"))) int longshore_set(const char* name, const char* value) {
    return is_resolved() && core ? core->set(name, value) : -1;
}

__attribute__((visibility("default"))) const longshore_task_functions* longshore_get_task_functions(uint32_t version,
                                                                                                 const char** why) {
    *why = NULL;
    if (!offload_wanted()) return NULL;
    if (is_resolved() && core) return core->get_tasks(version, why);
    *why = "it has not called MPI_Init, or runs with plain MPI";
    return NULL;
}
