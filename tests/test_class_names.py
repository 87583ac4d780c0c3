"""No class may be defined twice: two of one name in the libraries of a program are undefined behaviour, of which neither
compiler nor linker tells.  Looks at what stands at the left margin of src/ and lab/, outside of unnamed namespaces; a test may
define none either that the project has."""
import collections
import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
NAMESPACE = re.compile(r"(?:inline )?namespace\s*([\w:]*)\s*\{\s*$")
DEFINITION = re.compile(r"(?:template\s*<.*>\s*)?(?:class|struct|union|enum(?: class)?)\s+(?:alignas\([^)]*\)\s*)?(\w[\w:]*)[^;(]*\{")


def classes(path):
    """The full names of those that a file defines for all, as clang-format leaves it."""
    open_namespaces = []
    for line in path.read_text().splitlines():
        if opened := NAMESPACE.match(line):
            open_namespaces.append(opened[1])
        elif line.startswith("}  // namespace") or (line.startswith("}") and "namespace" in line):
            open_namespaces.pop()
        elif (defined := DEFINITION.match(line)) and "" not in open_namespaces:
            yield "::".join([*open_namespaces, defined[1]])


def sources(folder):
    return sorted(path for path in folder.rglob("*") if path.suffix in (".h", ".cc"))


def twice(root):
    """Lines that say which class is defined where, if that is in several files of src/ and lab/, or there and in a test."""
    places, found = collections.defaultdict(list), 0
    for path in [*sources(root / "src"), *sources(root / "lab")]:
        for name in classes(path):
            places[name].append(path)
            found += 1
    for path in sources(root / "tests"):
        for name in classes(path):
            if name in places and "::" in name:  # a stand-in for host/ defines its C types in its own way
                places[name].append(path)
    lines = [f"{name}: {', '.join(str(path.relative_to(root)) for path in paths)}"
             for name, paths in sorted(places.items()) if len(paths) > 1]
    return lines, found


class ClassNames(unittest.TestCase):
    def test_no_class_is_defined_twice(self):
        lines, found = twice(ROOT)
        self.assertGreater(found, 300, "the classes of the project are not seen")
        self.assertEqual(lines, [], "rename one of each")

    def test_one_that_is_would_be_found(self):
        files = {"src/one/a.h": "namespace longshore {\nclass Twice {\n};\nclass Twice;\n}  // namespace longshore\n",
                 "src/two/b.h": "namespace longshore {\nstruct alignas(64) Twice : Base {\n};\n}  // namespace longshore\n",
                 "src/two/c.cc": "namespace longshore {\nnamespace {\nclass Twice {\n};\n}  // namespace\nenum class Once : int {\n"
                                 "};\nstruct Once::Inner {\n};\n}  // namespace longshore\n",
                 "tests/d.cc": "namespace longshore::test {\nclass Twice {\n};\n}  // namespace longshore::test\nnamespace longshore {\n"
                               "struct Once {\n};\n}  // namespace longshore\n"}
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            self.assertEqual(twice(root)[0], ["longshore::Once: src/two/c.cc, tests/d.cc",
                                              "longshore::Twice: src/one/a.h, src/two/b.h"])
