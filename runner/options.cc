// SPDX-License-Identifier: Apache-2.0
#include "runner/options.h"

#include "runner/build_report.h"
#include "runner/environment.h"

#include <hora/hora.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace hora {
namespace {

constexpr const char* kUsage = R"(usage: hrun -np N [options] program [arguments]

Starts a program N times, as the ranks of one job, and ends them together.
  hrun -np 2 ./train --epochs 3
  hrun -np 4 python train.py

ranks
  -np, --num-proc N          how many ranks to start (default: all slots of -H or --hostfile)
  -H, --hosts HOST[:SLOTS]   where; only this machine in this version (default: localhost:N)
  --hostfile FILE            the same from a file, a line each: "HOST slots=N" or "HOST:N"; # begins a comment
  -x NAME[=VALUE]            set a variable for every rank, or pass on your own; repeatable

output
  --output-filename DIR      also write DIR/rank.K/stdout and stderr
  --no-prefix                print lines as they are, without [rank] before them
  --verbose                  say what is done

when to end
  --grace SECONDS            how long ranks have to end after one failed, and after TERM (default: 5)
  --timeout SECONDS          end the whole job after this time (exit code 124)

about
  --check-build              what this build has, and what this machine offers
  --version, --help

The exit code is that of the first rank that failed (128 + signal if it was killed), 0 if none did.
)";

/// hrun's own flags as CLI11 reads them; those that take a value.
constexpr std::array<const char*, 9> kTakeValues{
    "-n", "--num-proc", "-H", "--hosts", "--hostfile", "-x", "--output-filename", "--grace", "--timeout"};

[[noreturn]] void refuse(const std::string& why) { throw Error(Code::invalid_argument, why); }

/// Cuts off the program and its arguments, and spells the flags that have one dash and several letters with
/// two.
std::pair<std::vector<std::string>, std::vector<std::string>> split(
    const std::vector<std::string>& arguments) {
  std::vector<std::string> flags;
  std::size_t i = 0;
  for (; i < arguments.size(); ++i) {
    std::string word = arguments[i];
    if (word == "--") {
      ++i;
      break;
    }
    if (!word.starts_with('-')) break;
    if (word == "-np") word = "--num-proc";
    if (word == "-hostfile") word = "--hostfile";
    const bool takes_value = std::find(kTakeValues.begin(), kTakeValues.end(), word) != kTakeValues.end();
    flags.push_back(word);
    if (takes_value && i + 1 < arguments.size()) flags.push_back(arguments[++i]);
  }
  return {flags, {arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end()}};
}

std::chrono::milliseconds seconds(double value) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(value * 1000));
}

/// The words of the command line before their meaning is checked.
struct Raw {
  int ranks = 0;
  std::string hosts;
  std::string hostfile;
  std::vector<std::string> variables;
  double grace = 5;
  double timeout = 0;
  bool no_prefix = false;
  bool check_build = false;
  bool version = false;
  bool help = false;
};

void declare(CLI::App& app, Raw& raw, Options& options) {
  app.set_help_flag();
  app.add_flag("-h,--help", raw.help);
  app.add_option("-n,--num-proc", raw.ranks)->check(CLI::Range(1, 1 << 16));
  auto* hosts = app.add_option("-H,--hosts", raw.hosts);
  app.add_option("--hostfile", raw.hostfile)->excludes(hosts);
  app.add_option("-x", raw.variables)->allow_extra_args(false);
  app.add_option("--output-filename", options.output_directory);
  app.add_flag("--no-prefix", raw.no_prefix);
  app.add_flag("--verbose", options.verbose);
  app.add_option("--grace", raw.grace)->check(CLI::Range(0.0, 1e6));
  app.add_option("--timeout", raw.timeout)->check(CLI::Range(0.001, 1e7));
  app.add_flag("--check-build", raw.check_build);
  app.add_flag("--version", raw.version);
}

void choose_hosts(const Raw& raw, Options& options) {
  if (!raw.hosts.empty()) options.hosts = parse_hosts(raw.hosts);
  if (!raw.hostfile.empty()) options.hosts = read_hostfile(raw.hostfile);
  options.ranks = raw.ranks;
  if (options.hosts.empty()) {
    if (raw.ranks == 0) refuse("say how many ranks to start: -np N");
    options.hosts = {{"localhost", raw.ranks}};
  }
  int slots = 0;
  for (const auto& host : options.hosts) {
    if (!is_this_host(host.host)) {
      refuse(fmt::format(
          "host '{}' is not this machine: this version of hrun starts ranks on one machine only", host.host));
    }
    slots += host.slots;
  }
  if (options.ranks == 0) options.ranks = slots;
  if (options.ranks > slots) refuse(fmt::format("-np {}, but the hosts have {} slots", options.ranks, slots));
}

void choose_variables(const Raw& raw, Options& options) {
  for (const auto& word : raw.variables) {
    const auto equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (name.empty()) refuse(fmt::format("-x '{}': expected NAME or NAME=VALUE", word));
    if (name.starts_with("HORA_SECRET"))
      refuse(fmt::format("-x {}: the job's secret does not travel in variables", name));
    const auto value = equals == std::string::npos ? variable(name) : word.substr(equals + 1);
    if (!value)
      refuse(fmt::format("-x {}: this variable is not set here; give it a value: -x {}=VALUE", name, name));
    options.environment.emplace_back(name, *value);
  }
}

Options understand(const Raw& raw, Options options, const std::vector<std::string>& command) {
  choose_hosts(raw, options);
  choose_variables(raw, options);
  options.prefix = !raw.no_prefix;
  options.grace = seconds(raw.grace);
  if (raw.timeout > 0) options.timeout = seconds(raw.timeout);
  if (command.empty()) refuse("there is no program to start");
  options.command = command;
  options.command.front() = find_program(command.front());
  return options;
}

}  // namespace

Parsed parse_options(const std::vector<std::string>& arguments) {
  const auto wrong = [](const std::string& why) {
    return Parsed{{}, Answer{fmt::format("hrun: {}\n\n{}", why, kUsage), 2}};
  };
  auto [flags, command] = split(arguments);
  Raw raw;
  Options options;
  CLI::App app;
  declare(app, raw, options);
  try {
    std::reverse(flags.begin(), flags.end());  // as CLI11 takes them
    app.parse(flags);
    if (raw.help) return {{}, Answer{kUsage, 0}};
    if (raw.version) return {{}, Answer{fmt::format("hrun {}\n", version()), 0}};
    if (raw.check_build) return {{}, Answer{build_report(), 0}};
    return {understand(raw, std::move(options), command), {}};
  } catch (const CLI::ParseError& error) {
    return wrong(error.what());
  } catch (const Error& error) {
    return wrong(error.what());
  }
}

}  // namespace hora
