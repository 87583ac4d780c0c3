"""check_purity.sh and check_symbols.sh find what they are there to find."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import SOURCE, clean_environment

sys.path.insert(0, str(SOURCE / "tests"))
from collectives import entries  # noqa: E402

COMPILER = shutil.which("c++") or shutil.which("g++")


class Check(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="longshore-test-")
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name)

    def compile(self, code, output, *flags):
        output.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([COMPILER, "-x", "c++", "-std=c++20", "-fPIC", *flags, "-", "-o", output], input=code, text=True,
                       check=True)

    def check(self, name, expect):
        done = subprocess.run([SOURCE / "tests" / name, self.build], env=clean_environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60)
        self.assertEqual(done.returncode, expect, done.stdout)
        return done.stdout


class Purity(Check):
    def engine(self, name, code):
        folder = self.build / "src" / "engine" / "CMakeFiles" / "longshore_engine.dir"
        self.compile(code, folder / f"{name}.cc.o", "-c", "-fno-exceptions", "-O2")

    def test_no_objects_is_a_failure(self):
        self.check("check_purity.sh", 1)

    def test_pure_code_passes(self):
        self.engine("a", "#include <cstring>\nvoid b(); void a(char* p, int n) { memset(p, 0, n); b(); }")
        self.engine("b", "#include <cstdlib>\nvoid b() { abort(); }")
        self.assertIn("2 objects", self.check("check_purity.sh", 0))

    def test_finds_each_kind_of_impurity(self):
        for code, wanted in [("int* f() { return new int; }", "operator new"),
                             ("#include <cstdio>\nvoid f() { puts(\"x\"); }", "puts"),
                             ("#include <ctime>\nlong f() { return time(nullptr); }", "time"),
                             ("#include <vector>\nvoid f(std::vector<int>& v) { v.at(3) = 1; }", "std::__throw_out"),
                             ("#include <pthread.h>\nvoid f(pthread_mutex_t* m) { pthread_mutex_lock(m); }", "pthread"),
                             ("int g(); int f() { return g(); }", "g()")]:
            self.engine("f", code)
            self.assertIn(f"f.cc imports {wanted}", self.check("check_purity.sh", 1))


# malloc and its kin, which must work: every program that the library is preloaded into uses them.
ALLOCATION = """#include <stddef.h>
extern "C" {
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void*, size_t), __libc_free(void*);
void* __libc_memalign(size_t, size_t);
void* malloc(size_t n) { return __libc_malloc(n); }
void* calloc(size_t n, size_t m) { return __libc_calloc(n, m); }
void* realloc(void* p, size_t n) { return __libc_realloc(p, n); }
void* reallocarray(void* p, size_t n, size_t m) { return __libc_realloc(p, n * m); }
void free(void* p) { __libc_free(p); }
void* memalign(size_t a, size_t n) { return __libc_memalign(a, n); }
void* aligned_alloc(size_t a, size_t n) { return __libc_memalign(a, n); }
int posix_memalign(void** p, size_t a, size_t n) { return (*p = __libc_memalign(a, n)) ? 0 : 12; }
void* valloc(size_t n) { return __libc_memalign(4096, n); }
void* pvalloc(size_t n) { return __libc_memalign(4096, n); }
size_t malloc_usable_size(void*) { return 0; }
int madvise(void*, size_t, int) { return 0; }
}
"""


class Symbols(Check):
    def library(self, name, code, *flags):
        self.compile(code, self.build / "lib" / name, "-shared", "-nodefaultlibs", *flags, "-lc")

    def test_skips_with_a_reason_when_not_built(self):
        self.assertIn("SKIP", self.check("check_symbols.sh", 77))

    @staticmethod
    def stub(*, without=""):
        names = [prefix + entry for entry in entries() for prefix in ("", "P")]
        return ALLOCATION + "".join(f'extern "C" int {name}() {{ return 0; }}\n'
                       for name in [*names, "PMIx_Commit", "longshore_get_counters", "longshore_get_times",
                                    "longshore_get_task_functions", "longshore_set"]
                       if name != without)

    def test_a_good_guest_passes(self):
        self.library("liblongshore.so", self.stub())
        self.library("liblongshore-mpich.so", """extern "C" {
            int PMPI_Comm_rank(); int longshore_core_open() { return PMPI_Comm_rank(); } }""")
        self.assertIn("2 libraries", self.check("check_symbols.sh", 0))

    def test_finds_a_missing_entry(self):
        self.library("liblongshore.so", self.stub(without="PMPI_Wait"))
        self.assertIn("liblongshore.so does not export PMPI_Wait", self.check("check_symbols.sh", 1))

    def test_finds_a_core_that_calls_the_stub(self):
        self.library("liblongshore.so", self.stub())
        self.library("liblongshore-mpich.so", """extern "C" {
            int PMPI_Wait(); int longshore_core_open() { return PMPI_Wait(); } }""")
        self.assertIn("liblongshore-mpich.so calls the stub's PMPI_Wait", self.check("check_symbols.sh", 1))

    def test_finds_other_names(self):
        self.library("liblongshore.so", "namespace longshore { void leak() {} }")
        self.assertIn("exports longshore::leak()", self.check("check_symbols.sh", 1))

    def test_finds_other_libraries(self):
        self.library("liblongshore.so", 'extern "C" { double sin(double); double longshore_sin(double x) '
                     "{ return sin(x); } }", "-Wl,--no-as-needed", "-lm")
        self.assertIn("needs libm.so", self.check("check_symbols.sh", 1))

    def test_a_core_uses_the_unwinder_of_the_process(self):
        self.library("liblongshore.so", self.stub())
        code = """extern "C" { %s; int longshore_core_open() { _Unwind_Resume(nullptr); return 0; } }"""
        self.library("liblongshore-mpich.so", code % "void _Unwind_Resume(void*)", "-Wl,--no-as-needed", "-lgcc_s")
        self.assertIn("2 libraries", self.check("check_symbols.sh", 0))
        self.library("liblongshore-mpich.so", code % '__attribute__((visibility("hidden"))) void _Unwind_Resume(void*) {}')
        self.assertIn("liblongshore-mpich.so has an unwinder of its own: _Unwind_Resume", self.check("check_symbols.sh", 1))
        self.library("liblongshore.so", self.stub(), "-Wl,--no-as-needed", "-lgcc_s")
        self.assertIn("liblongshore.so needs libgcc_s.so.1", self.check("check_symbols.sh", 1))

    def test_finds_shared_memory_with_a_name(self):
        self.library("liblongshore.so", self.stub() + 'extern "C" int shm_open(const char*, int, unsigned);\n'
                     "__attribute__((used)) static auto* make = shm_open;")
        self.assertIn("liblongshore.so makes files in /dev/shm", self.check("check_symbols.sh", 1))

    def test_finds_noise(self):
        self.library("liblongshore.so", "#include <unistd.h>\n"
                     '__attribute__((constructor)) static void hello() { (void)!write(2, "hello", 5); }')
        self.assertIn("prints: hello", self.check("check_symbols.sh", 1))
