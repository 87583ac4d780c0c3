#include "model/machine_file.h"

#include <toml++/toml.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

namespace longshore::timed {
namespace {

class Parser {
  public:
    Parser(const std::string& name, Machine* out) : name_(name), out_(out) {}

    std::string parse(const toml::table& file) {
        for (const auto& [key, node] : file) {
            const std::string table(key.str());
            if (const std::string* text = text_of(table, node)) {
                (table == "name" ? out_->name : out_->title) = *text;
            } else if (const toml::table* values = node.as_table()) {
                if (const std::string wrong = parse_table(table, *values); !wrong.empty()) return wrong;
            } else {
                return at(node, "\"" + table +
                                    "\" is not known here; expected are a name, a title and the tables " +
                                    tables());
            }
        }
        if (out_->name.empty()) return name_ + ": the machine has no name: name = \"...\" is expected";
        const bool has_dpu = file.contains("dpu");
        for (const MachineValue& value : machine_values())
            if (!out_->sources.contains(value.key) && (has_dpu || !value.is_of_dpu()))
                return missing(value, file);
        return topology(file);
    }

  private:
    // With the line of the table in which it would stand.
    std::string missing(const MachineValue& value, const toml::table& file) const {
        const std::string what =
            std::string(value.key) + " is missing (" + value.meaning + "); expected is " + example(value);
        const std::string key(value.key);
        const toml::node* table = file.get(key.substr(0, key.find('.')));
        return table != nullptr ? at(*table, what) : name_ + ": " + what;
    }

    const std::string* text_of(const std::string& key, const toml::node& node) const {
        const toml::value<std::string>* text = node.as_string();
        return (key == "name" || key == "title") && text != nullptr ? &text->get() : nullptr;
    }

    std::string parse_table(const std::string& table, const toml::table& values) {
        for (const auto& [key, node] : values) {
            const std::string name = table + "." + std::string(key.str());
            if (name == "node.sockets")  // files of earlier versions
                return at(node,
                          "node.sockets is no value of a machine any more, as nothing depends on it: take "
                          "the line out");
            const MachineValue* value = find_machine_value(name);
            if (value == nullptr) return at(node, "a machine has no \"" + name + "\"" + known(table));
            if (const std::string wrong = parse_value(*value, node); !wrong.empty()) return wrong;
        }
        return "";
    }

    std::string parse_value(const MachineValue& value, const toml::node& node) {
        const toml::table* one = node.as_table();
        if (one == nullptr)
            return at(node, std::string(value.key) + " has to say where it comes from; expected is " +
                                example(value));
        for (const auto& [key, part] : *one)
            if (key != "value" && key != "unit" && key != "source")
                return at(part, std::string(value.key) + " has a value, a unit and a source, and no \"" +
                                    std::string(key.str()) + "\"");
        const auto number = (*one)["value"].value<double>();
        const auto source = (*one)["source"].value<std::string>();
        const std::string unit = (*one)["unit"].value_or(std::string());
        if (!number) return at(node, std::string(value.key) + " has no value; expected is " + example(value));
        if (!source || source->empty())
            return at(node, std::string(value.key) +
                                " has no source: where the value comes from, as \"paper 1, "
                                "table I\" or \"fitted to row 5\"");
        uint64_t kept = 0;
        if (const std::string wrong = convert(value, *number, unit, &kept); !wrong.empty())
            return at(node, wrong);
        out_->*(value.at) = kept;
        out_->sources[value.key] = *source;
        return "";
    }

    // What cannot be built, although each value may be.
    std::string topology(const toml::table& file) const {
        if (out_->memory_core_rate > out_->memory_rate)
            return at(*file["memory"].node(),
                      "memory.core_rate is of one core, and cannot be more than memory.rate, "
                      "which is of all");
        return "";
    }

    std::string at(const toml::node& node, const std::string& what) const {
        return name_ + ":" + std::to_string(node.source().begin.line) + ": " + what;
    }

    static std::string example(const MachineValue& value) {
        const std::string units = names_of(value.unit);
        return "{ value = NUMBER, " + (units.empty() ? "" : "unit = " + quoted(units) + ", ") +
               "source = \"...\" }";
    }
    static std::string quoted(const std::string& names) { return "\"" + names + "\""; }

    static std::string tables() {
        std::string all, last;
        for (const MachineValue& value : machine_values()) {
            const std::string key(value.key);
            const std::string table = key.substr(0, key.find('.'));
            if (table != last) all += (all.empty() ? "" : ", ") + table;
            last = table;
        }
        return all;
    }
    static std::string known(const std::string& table) {
        std::string all;
        for (const MachineValue& value : machine_values())
            if (std::string_view(value.key).starts_with(table + "."))
                all += (all.empty() ? "" : ", ") + std::string(value.key);
        return all.empty() ? "; its tables are " + tables() : "; there are " + all;
    }

    const std::string name_;
    Machine* const out_;
};

}  // namespace

std::string parse_machine(std::string_view text, const std::string& name, Machine* out) {
    *out = {};
    try {
        return Parser(name, out).parse(toml::parse(text, name));
    } catch (const toml::parse_error& error) {
        return name + ":" + std::to_string(error.source().begin.line) +
               ": this is not TOML: " + std::string(error.description());
    }
}

std::string read_machine(const std::string& path, Machine* out) {
    std::ifstream file(path);
    std::ostringstream text;
    if (!file || !(text << file.rdbuf())) return path + ": " + strerror(errno != 0 ? errno : EIO);
    return parse_machine(text.str(), path, out);
}

namespace {

std::string in_quotes(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return out + "\"";
}

}  // namespace

std::string write_machine(const Machine& machine) {
    std::string text = "name = " + in_quotes(machine.name) + "\ntitle = " + in_quotes(machine.title) + "\n",
                last;
    for (const MachineValue& value : machine_values()) {
        if (value.is_of_dpu() && !machine.has_dpu()) continue;
        const std::string key(value.key);
        const size_t dot = key.find('.');
        if (const std::string table = key.substr(0, dot); table != last) {
            text += "\n[" + table + "]\n";
            last = table;
        }
        const std::string said = written(value.unit, machine.*(value.at));
        const size_t space = said.find(' ');
        text += key.substr(dot + 1) + " = { value = " + said.substr(0, space) +
                (space == said.npos ? "" : ", unit = \"" + said.substr(space + 1) + "\"") +
                ", source = " + in_quotes(machine.sources.at(key)) + " }\n";
    }
    return text;
}

}  // namespace longshore::timed
