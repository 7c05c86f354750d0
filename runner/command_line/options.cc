// SPDX-License-Identifier: Apache-2.0
#include "runner/command_line/options.h"

#include "core/comm/world.h"
#include "runner/command_line/build_report.h"
#include "runner/command_line/elastic_flags.h"
#include "runner/command_line/flag_checks.h"
#include "runner/horovod/config_file.h"
#include "runner/horovod/horovod.h"
#include "runner/horovod/horovod_flags.h"
#include "runner/launch/environment.h"
#include "runner/launch/mpirun.h"
#include "runner/launch/slurm.h"
#include "runner/launch/ssh.h"
#include "runner/launch/this_host.h"
#include "runner/observe/analysis.h"
#include "runner/observe/dump_file.h"
#include "runner/observe/status_command.h"
#include "runner/preflight/probe.h"

#include <hora/hora.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>

namespace hora::hrun {
namespace {

constexpr const char* kUsage = R"(usage: hrun -np N [options] program [arguments]
)";

constexpr const char* kHelp = R"(
Starts a program N times, as the ranks of one job, and ends them together.
  hrun -np 2 ./train --epochs 3
  hrun -np 4 python train.py

ranks
  -np, --num-proc N          how many ranks to start (default: all slots of -H or --hostfile)
  -H, --hosts HOST[:SLOTS],...
                             where, and how many ranks each host takes (default: localhost:N); [IPv6]:SLOTS
  --hostfile FILE            the same from a file, a line each: "HOST slots=N" or "HOST:N"; # begins a comment
  --oversubscribe            start more ranks than there are slots, up to the max_slots of a hostfile
  -x NAME[=VALUE]            set a variable for every rank, or pass on your own; repeatable
  --horovod                  for Python scripts written for Horovod: "import horovod" means Hora, and ranks
                             also get HOROVOD_RANK, HOROVOD_SIZE and their kin; flags of horovodrun's that
                             mean nothing here are named, and else ignored
  --bind-to none|core|numa   bind each rank to its share of the host's cores, or to the NUMA node where that
                             lies; nothing is bound where there are more ranks than cores (default: none)
  --report-bindings          say which rank is bound to what
  --config-file FILE         flags from a YAML file: "num-proc: 4", "environment: {NAME: VALUE}", or as
                             horovodrun has it; those of the command line count more

other hosts
  hrun reaches them by ssh, which must need no password, and runs hrun there, from the same path as here or
  from PATH. In an allocation of Slurm's it takes the nodes and their tasks from there, and reaches them by
  srun. The ranks get the working directory, the program's path and the environment from here; what tells of a
  machine or a session (HOME, SSH_*, DISPLAY, CUDA_VISIBLE_DEVICES, ...) is the other host's own, unless -x
  sets it.
  --launcher ssh|slurm|mpi   by ssh, by srun, or not at all: mpirun takes hrun's place and starts the ranks
                             (default: slurm in an allocation, unless -H or --hostfile is given; else ssh)
  --mpi                      --launcher mpi, and tensors move over MPI, too (HORA_CPU_OPERATIONS=mpi)
  --mpi-args "ARGUMENTS"     further arguments for mpirun
  -p, --ssh-port PORT        of all hosts; ssh's own configuration can name one for each
  -i, --ssh-identity-file FILE
                             the key
  --network NETS             which addresses ranks use for each other: networks (10.1.0.0/16) and interfaces
                             (eth0), separated by commas; also --network-interfaces
  --start-timeout SECONDS    how long hosts have to answer, and then ranks to meet (default: 30)

how it runs
  --fusion-threshold-mb N    how many MiB travel together at the most (HORA_FUSION_THRESHOLD, in bytes)
  --autotune                 try that out in the first 200 steps of a training, keep what is fastest, and say
                             what it was; --autotune-log-file FILE: the trials, as CSV;
                             --autotune-steps-per-sample N: the steps of a trial (default: 10)

input
  --stdin RANK|all|none      which rank reads what hrun reads (default: 0). At a terminal it has one of its
                             own, for input(), pdb and the like; Ctrl-C is for all ranks. all: each rank gets
                             a copy, through a pipe

output
  --output-filename DIR      also write DIR/rank.K/stdout and stderr, and at the end DIR/summary.json: how
                             each rank ended, and which was the first cause
  --timeline-filename FILE   write a trace of what all ranks do, for ui.perfetto.dev or chrome://tracing
  --timeline-mark-cycles     also mark in it when ranks heard of decisions
  --no-prefix                print what ranks write byte for byte, without [rank] before lines
  --verbose                  say what is done

when ranks are lost
  --min-np N                 an elastic job: it goes on when ranks die or are stopped, as long as N are left;
                             with fewer it pauses. A process that is lost is replaced. Output and lines of
                             hrun keep the numbers that ranks have at the start; also --min-num-proc
  --max-np N                 an elastic job that begins with -np ranks, and has up to N if there are slots;
                             also --max-num-proc
  --host-discovery-script SCRIPT
                             an elastic job on the hosts that this command of sh prints, one "host:slots" or
                             "host" in a line. It runs again every second. Ranks are started on hosts that
                             come, and leave those that are not printed any more. Without --max-np the job
                             takes all slots
  --slots-per-host N         slots of a host that is printed without a number (default: 1)
  --spares N                 keep N further processes ready, which take the places of lost ones at once;
                             N:hot lets them make every step on no samples of their own, so that they need
                             no state when they are needed
  --elastic-timeout SECONDS  how long it may pause; then it ends with exit code 75 (default: 600)
  --max-replacements N       start no more than N processes in place of lost ones (default: no limit)
  --blacklist-cooldown-range SHORTEST LONGEST
                             seconds: after its second failure a rank gets its next process after the shortest
                             time, and after each further one twice as late, up to the longest; a host after
                             its third (default: 10 600)
  --stopped-after SECONDS    end and replace a rank that is stopped (SIGSTOP) for so long; 0: never, for
                             debuggers (default: 0.2)
  --reset-limit N            end the job when its ranks have changed N times (default: no limit)

when to end
  --grace SECONDS            how long ranks have to end after one failed, after INT and after TERM; and how
                             long a reader of the output may stand still once they have ended (default: 5)
  --timeout SECONDS          end the whole job after this time (exit code 124)
  Ctrl-C gives ranks INT (in Python a KeyboardInterrupt), TERM after the grace, and KILL after it again; each
  further Ctrl-C takes the next step at once. A TERM for hrun gives them TERM, and then KILL.
  While nobody reads the output, ranks that print stand still. After their end the reader gets everything for
  as long as it takes some of it within each grace, at least within each second; else the rest is left
  unwritten, hrun says how many bytes that were, and a good job has exit code 1. A pager that is to stand
  still for longer needs a longer --grace; the files of --output-filename are whole in any case.

while it runs
  hrun status [JOB] [--json] say how a job is that you have started on this host: steps a second, what waits
                             for whom, and of each rank its last operation, what it has under way, and how
                             late it comes in steps; with several jobs: which there are. JOB is an id from
                             there, or how it begins, or the process of its hrun
  hrun resize N [JOB]        let an elastic job have N ranks from the next step on
  hrun drain HOST [JOB]      let all ranks of a host leave an elastic job at the next step; others take their
                             places where there are slots
  hrun dump [JOB]            let all ranks write down what they have done and what is under way, for analyze
  --metrics ADDRESS          serve the same to Prometheus, as GET /metrics: ADDRESS is unix:/path, or a port
                             of this machine: 9400, 127.0.0.1:9400, [::1]:9400 (by these names or localhost)
  Programs of these names start as ./status and ./dump.

afterwards
  hrun analyze DIR           say what the ranks of a job that failed or stands still did differently, by
                             what each has written to DIR (HORA_DUMP_DIR, else hora-UID/dumps/JOB in the
                             temporary directory, as ranks and hrun dump say): when it failed, at hrun dump,
                             and at the signal that HORA_DUMP_SIGNAL (USR1 or USR2) names; a program of that
                             name starts as ./analyze

about
  --preflight                start no program, but measure latency and MB/s between each pair of hosts, and
                             what ranks of a host can do with shared memory; exit code 1 if two hosts do not
                             reach each other
  -cb, --check-build         what this build has, and what this machine offers
  -v, --version              -h, --help

The exit code is that of the first rank that failed (128 + signal if it was killed), 0 if none did; 255 if a
host was lost, 124 after --timeout, 1 if ranks could not be started or what they wrote could not be written,
2 if the command line is wrong. That of an elastic job is 0 if all ranks that are left end well, 74 if no rank
is left that has the state of the training, and 75 if it paused for too long.
)";

/// The words are not of the form that the usage line shows.
struct WrongUsage : Error {
  explicit WrongUsage(const std::string& why) : Error(Code::invalid_argument, why) {}
};

/// Spells flags of one dash and several letters as CLI11 takes them: "-np 2", "-np2", "-np=2", "--np 2".
std::vector<std::string> spell(const std::string& word) {
  if (word == "-hostfile") return {"--hostfile"};
  if (word == "-cb") return {"--check-build"};
  const std::size_t dashes = word.starts_with("--np") ? 2 : 1;
  if (word.compare(dashes, 2, "np") != 0) return {word};
  std::string number = word.substr(dashes + 2);
  if (number.starts_with('=')) number.erase(0, 1);
  if (number.empty()) return {"--num-proc"};
  const bool digits = number.find_first_not_of("0123456789") == std::string::npos;
  return digits ? std::vector<std::string>{"--num-proc", number} : std::vector{word};
}

/// The words of a command line, by whom they are for.
struct Words {
  std::vector<std::string> flags;    // hrun's own
  HorovodSettings horovods;          // see runner/horovod/horovod_flags.h
  std::vector<std::string> command;  // the program and its arguments
};

/// Takes a flag of Horovod's, if there is one at `i`, which is moved to its last word.
bool take_horovod_flag(const std::vector<std::string>& arguments, std::size_t& i, HorovodSettings& settings) {
  const std::string& word = arguments[i];
  const auto equals = word.find('=');
  const auto flag = find_horovod_flag(word.substr(0, equals));
  if (!flag || (equals != std::string::npos && !flag->takes_value())) return false;
  std::string& value = settings[flag->setting];
  if (!flag->takes_value()) {
    value = flag->value;
  } else if (equals != std::string::npos) {
    value = word.substr(equals + 1);
  } else {
    if (i + 1 == arguments.size()) throw WrongUsage(fmt::format("{} needs a value", word));
    value = arguments[++i];
  }
  return true;
}

double seconds_of(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

/// The words of the command line before their meaning is checked.
struct Raw {
  int ranks = 0;
  std::optional<std::string> hosts;
  std::optional<std::string> hostfile;
  std::optional<std::string> output_directory;
  std::optional<std::string> timeline;
  std::optional<std::string> metrics;
  std::vector<std::string> variables;
  std::optional<std::string> config_file;
  std::string bind_to = "none";
  bool report_bindings = false;
  std::optional<std::string> reader;
  std::vector<std::string> networks;
  std::optional<int> ssh_port;
  std::optional<std::string> identity_file;
  std::optional<std::string> launcher;
  std::optional<std::string> mpi_arguments;
  bool mpi = false;
  std::optional<double> start_timeout;
  bool oversubscribe = false;
  bool mark_cycles = false;
  bool verbose = false;
  ElasticFlags elastic;
  double grace = 5;
  double timeout = 0;
  bool horovod = false;
  bool no_prefix = false;
  bool preflight = false;
  bool check_build = false;
  bool version = false;
  bool help = false;
};

std::function<std::string(const std::string&)> one_of(const std::vector<std::string>& words) {
  return [=](const std::string& text) -> std::string {
    if (std::find(words.begin(), words.end(), text) != words.end()) return {};
    return fmt::format("must be one of {}, not '{}'", fmt::join(words, ", "), text);
  };
}

void declare(CLI::App& app, Raw& raw) {
  app.set_help_flag();
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_flag("-h,--help", raw.help);
  app.add_option("-n,--num-proc", raw.ranks)->check(number_from(1, 1 << 16, "ranks"), "");
  auto* hosts = app.add_option("-H,--hosts", raw.hosts);
  app.add_option("--hostfile", raw.hostfile)->excludes(hosts);
  app.add_option("-x", raw.variables)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--config-file", raw.config_file);
  app.add_option("--bind-to", raw.bind_to);
  app.add_flag("--report-bindings", raw.report_bindings);
  app.add_flag("--oversubscribe", raw.oversubscribe);
  app.add_option("-p,--ssh-port", raw.ssh_port)->check(number_from(1, 65535, "a port"), "");
  app.add_option("-i,--ssh-identity-file", raw.identity_file);
  app.add_option("--launcher", raw.launcher)->check(one_of({"ssh", "slurm", "mpi"}), "");
  app.add_flag("--mpi", raw.mpi);
  app.add_option("--mpi-args", raw.mpi_arguments);
  app.add_option("--network,--network-interface,--network-interfaces", raw.networks)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--start-timeout", raw.start_timeout)->check(number_from(0.001, 1e7, "seconds"), "");
  app.add_option("--output-filename", raw.output_directory);
  app.add_option("--stdin", raw.reader);
  app.add_flag("--horovod", raw.horovod);
  app.add_option("--timeline-filename", raw.timeline);
  app.add_option("--metrics", raw.metrics);
  app.add_flag("--timeline-mark-cycles,!--no-timeline-mark-cycles", raw.mark_cycles);
  app.add_flag("--no-prefix", raw.no_prefix);
  app.add_flag("--verbose", raw.verbose);
  raw.elastic.add_to(app);
  app.add_option("--grace", raw.grace)->check(number_from(0.0, 1e6, "seconds"), "");
  app.add_option("--timeout", raw.timeout)->check(number_from(0.001, 1e7, "seconds"), "");
  app.add_flag("--preflight", raw.preflight);
  app.add_flag("--check-build", raw.check_build);
  app.add_flag("-v,--version", raw.version);
}

/// How many words follow this flag of hrun's, which are its values.
int values_of(const CLI::App& app, const std::string& flag) {
  const auto* option = app.get_option_no_throw(flag);
  return option == nullptr ? 0 : option->get_items_expected_min();
}

Words split(const std::vector<std::string>& arguments) {
  Words words;
  auto& flags = words.flags;
  Raw raw;
  CLI::App app;
  declare(app, raw);
  std::size_t i = 0;
  for (; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--") {
      ++i;
      break;
    }
    if (!word.starts_with('-')) break;
    if (take_horovod_flag(arguments, i, words.horovods)) continue;
    for (auto& spelt : spell(word)) flags.push_back(std::move(spelt));
    for (int values = values_of(app, flags.back()); values > 0; --values) {
      if (i + 1 == arguments.size()) throw WrongUsage(fmt::format("{} needs a value", word));
      flags.push_back(arguments[++i]);
    }
  }
  words.command = {arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end()};
  return words;
}

/// The settings of flags, last ones first, as CLI11 takes them. Throws CLI::ParseError.
Raw read(std::vector<std::string> flags) {
  Raw raw;
  CLI::App app;
  declare(app, raw);
  std::reverse(flags.begin(), flags.end());
  app.parse(flags);
  return raw;
}

/// See TakesValue. A flag for something that is asked for once, or for where to read, is no matter of a file.
std::optional<bool> takes_value_in_file(const std::string& flag) {
  for (const char* other : {"--help", "--version", "--check-build", "--config-file", "--preflight"}) {
    if (flag == other) return std::nullopt;
  }
  Raw raw;
  CLI::App app;
  declare(app, raw);
  const auto* option = app.get_option_no_throw(flag);
  return option == nullptr ? std::nullopt : std::optional(option->get_items_expected_max() > 0);
}

/// Whether the command line says where ranks run, or by which networks, so that what a file says of it does
/// not count. Of most flags the last one counts; these go together with others of their kind.
bool is_overruled(const FileWord& word, const Raw& raw) {
  if (word.flag.starts_with("--network")) return !raw.networks.empty();
  return (word.flag == "--hosts" || word.flag == "--hostfile") && (raw.hosts || raw.hostfile);
}

/// The settings of a file and the command line together. Throws CLI::ParseError; the text of an error about a
/// word of the file names the line.
Raw read_with_file(const FileSettings& file, const std::vector<std::string>& flags, const Raw& raw) {
  std::vector<std::string> all;
  for (const auto& word : file.words) {
    if (!is_overruled(word, raw)) all.push_back(word.word);
  }
  all.insert(all.end(), flags.begin(), flags.end());
  try {
    return read(all);
  } catch (const CLI::ParseError& error) {
    for (const auto& word : file.words) {
      if (std::string(error.what()).starts_with(word.flag + ":")) refuse(word.where + error.what());
    }
    throw;
  }
}

/// Once all variables of the ranks are known.
void check_elastic(const Options& options) {
  if (!options.elastic) return;
  const auto chosen = std::find_if(options.environment.begin(), options.environment.end(),
                                   [](const auto& pair) { return pair.first == "HORA_CPU_OPERATIONS"; });
  const auto operations =
      chosen != options.environment.end() ? chosen->second : variable("HORA_CPU_OPERATIONS").value_or("");
  if (operations != "mpi") return;
  refuse(
      "--min-np: MPI ends all ranks when one is lost, so an elastic job cannot use it: set "
      "HORA_CPU_OPERATIONS to auto, or leave --min-np out");
}

/// The hosts that the script prints, once they have the slots with which the job begins.
std::vector<HostSlots> discovered_hosts(const Raw& raw, const DiscoveryPlan& plan) {
  if (raw.hosts || raw.hostfile)
    refuse("--host-discovery-script: it tells the hosts, so leave -H and --hostfile out");
  if (raw.launcher == "mpi")
    refuse("--host-discovery-script: elastic jobs need hrun to start the ranks: --launcher ssh or slurm");
  if (raw.ranks == 0 && !raw.elastic.min_ranks)
    throw WrongUsage("say with how many ranks the job begins: -np N, or --min-np N");
  const int least = std::max(1, raw.ranks > 0 ? raw.ranks : *raw.elastic.min_ranks);
  return discover_hosts(plan, least, raw.elastic.pause_timeout(), [](const std::string& line) {
    std::fprintf(stderr, "hrun: waiting for hosts: %s\n", line.c_str());
  });
}

void choose_hosts(const Raw& raw, Options& options) {
  options.discovery = raw.elastic.discovery();
  if (options.discovery) {
    options.hosts = discovered_hosts(raw, *options.discovery);
  } else if (raw.hosts) {
    options.hosts = parse_hosts(*raw.hosts);
  } else if (raw.hostfile) {
    options.hosts = read_hostfile(*raw.hostfile);
  } else {
    options.hosts = slurm_hosts(variable);
  }
  if (options.hosts.empty()) {
    if (raw.ranks == 0) throw WrongUsage("say how many ranks to start: -np N");
    options.hosts = {
        {"localhost", std::max(raw.ranks, raw.elastic.max_ranks.value_or(0)) + raw.elastic.spares()}};
  }
  const int slots = total_slots(options.hosts);
  const int for_ranks = options.discovery ? slots : slots - raw.elastic.spares();
  const int most = std::min(for_ranks, raw.elastic.max_ranks.value_or(for_ranks));
  options.ranks = raw.ranks;
  if (options.ranks == 0) options.ranks = options.discovery ? *raw.elastic.min_ranks : std::max(1, most);
  options.elastic = raw.elastic.policy(options.ranks);
  if (options.elastic && raw.launcher == "mpi")
    refuse("--min-np: elastic jobs need hrun to start the ranks: --launcher ssh or slurm");
  if (options.elastic && raw.elastic.spares() > 0 && for_ranks < options.ranks && !options.discovery) {
    refuse(fmt::format("--spares {}: the hosts have {} slots, and the job needs {} for its ranks",
                       *raw.elastic.spares_text, slots, options.ranks));
  }
  if (raw.elastic.max_ranks || options.discovery) options.ranks = std::max(options.ranks, most);
  options.shares = place(options.hosts, options.ranks, raw.oversubscribe);
}

/// The hosts that are not this machine. It may have many names, and is one host all the same.
std::vector<std::string> other_hosts(const std::vector<HostSlots>& hosts) {
  std::vector<std::string> names(hosts.size());
  std::transform(hosts.begin(), hosts.end(), names.begin(), [](const HostSlots& host) { return host.host; });
  const std::vector<bool> here = are_this_host(names);
  std::vector<std::string> others;
  std::optional<std::string> own;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!here[i]) {
      others.push_back(names[i]);
    } else if (own) {
      refuse(fmt::format("{}hosts '{}' and '{}' are both this machine; name it once with all its slots",
                         hosts[i].where, *own, names[i]));
    } else {
      own = names[i];
    }
  }
  return others;
}

std::string launcher_of(const Raw& raw) {
  if (raw.launcher == "slurm" && !variable("SLURM_JOB_ID"))
    refuse(
        "--launcher slurm: this is no allocation of Slurm's: start hrun in salloc's shell or a script of "
        "sbatch's");
  const bool allocated = !raw.hosts && !raw.hostfile && !slurm_hosts(variable).empty();
  return raw.launcher.value_or(allocated ? "slurm" : "ssh");
}

/// By srun, within an allocation.
RemoteHost step_on(const std::string& host, const std::string& own_path) {
  return {host, srun_command(find_program("srun"), host, own_path),
          [host, own_path](const std::string& words, int exit_code) {
            return explain_srun(words, exit_code, host, own_path);
          }};
}

RemoteHost road_by_ssh(const std::string& host, const SshOptions& ssh, const std::string& own_path) {
  return {host, ssh_command(find_program("ssh"), host, ssh, own_path),
          [host, own_path](const std::string& words, int exit_code) {
            return explain_ssh(words, exit_code, host, own_path);
          }};
}

/// After that a host of an elastic job is lost. The ranks themselves refuse a variable that makes no sense.
std::chrono::milliseconds silence_of_hosts() {
  constexpr double kNever = 1e7;
  const auto set = variable("HORA_HEARTBEAT_TIMEOUT");
  double value = kElasticHeartbeatTimeout.count();
  if (set && (!CLI::detail::lexical_cast(*set, value) || value <= 0 || value > kNever)) value = kNever;
  return seconds(value);
}

void choose_remote_hosts(const Raw& raw, Options& options) {
  constexpr double kMostConnectTimeout = 10;  // for a host that does not answer at all
  SshOptions ssh;
  ssh.port = raw.ssh_port;
  ssh.connect_timeout =
      static_cast<int>(std::clamp(seconds_of(options.start_timeout), 1.0, kMostConnectTimeout));
  if (raw.identity_file) {
    ssh.identity_file = *raw.identity_file;
    if (::access(ssh.identity_file.c_str(), R_OK) != 0)
      refuse(fmt::format("--ssh-identity-file {}: {}", ssh.identity_file, std::strerror(errno)));
  }
  const std::string own_path = std::filesystem::read_symlink("/proc/self/exe").string();
  const bool by_slurm = launcher_of(raw) == "slurm";
  options.way_to = [=, silence = silence_of_hosts()](const std::string& host) {
    RemoteHost way = by_slurm ? step_on(host, own_path) : road_by_ssh(host, ssh, own_path);
    way.silence = silence;
    return way;
  };
  for (const auto& host : other_hosts(options.hosts)) {
    const bool has_ranks = std::any_of(options.shares.begin(), options.shares.end(),
                                       [&](const HostShare& share) { return share.host == host; });
    if (has_ranks || options.elastic) options.remote_hosts.push_back(options.way_to(host));
  }
}

/// Also for the ranks themselves, who have as long to meet.
void choose_start_timeout(const Raw& raw, Options& options) {
  std::optional<double> wanted = raw.start_timeout;
  if (wanted) options.environment.emplace_back("HORA_START_TIMEOUT", fmt::to_string(*wanted));
  if (const auto set = variable("HORA_START_TIMEOUT"); !wanted && set) {
    double value = 0;
    if (CLI::detail::lexical_cast(*set, value) && value > 0 && value <= 1e7) wanted = value;
  }
  if (wanted) options.start_timeout = seconds(*wanted);
}

void choose_network(const Raw& raw, Options& options) {
  if (raw.networks.empty()) {
    options.network = variable("HORA_NETWORK").value_or("");
    return;
  }
  for (const auto& network : raw.networks) options.network += (options.network.empty() ? "" : ",") + network;
  if (options.network.empty()) refuse("--network needs networks or names of interfaces");
  options.environment.emplace_back("HORA_NETWORK", options.network);
}

void choose_variables(const Raw& raw, Options& options) {
  for (const auto& word : raw.variables) {
    const auto equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (name.empty()) refuse(fmt::format("-x '{}': expected NAME or NAME=VALUE", word));
    if (name.starts_with("HORA_SECRET"))
      refuse(fmt::format("-x {}: the job's secret does not travel in variables", name));
    if (is_given_to_ranks(name) || (raw.horovod && is_given_for_horovod(name)))
      refuse(fmt::format("-x {}: hrun itself gives every rank this variable", name));
    const auto value = equals == std::string::npos ? variable(name) : word.substr(equals + 1);
    if (!value)
      refuse(fmt::format("-x {}: this variable is not set here; give it a value: -x {}=VALUE", name, name));
    std::erase_if(options.environment, [&](const auto& pair) { return pair.first == name; });
    options.environment.emplace_back(name, *value);
  }
}

/// A variable that a flag stands for, unless -x says something else of it.
void add_variable(Options& options, const std::string& name, const std::string& value) {
  const bool chosen = std::any_of(options.environment.begin(), options.environment.end(),
                                  [&](const auto& pair) { return pair.first == name; });
  if (!chosen) options.environment.emplace_back(name, value);
}

/// Applies the settings of the file and the command line in Horovod's words. A setting that means nothing may
/// stand in a file, and, for scripts that start horovodrun, on the command line of --horovod.
void choose_as_horovod_does(const HorovodSettings& file, const HorovodSettings& given, bool horovod,
                            Options& options) {
  auto meaningless = meaningless_among(given);
  if (!meaningless.empty() && !horovod) {
    refuse(fmt::format("{}: this flag of Horovod's means nothing here; leave it out, or add --horovod",
                       meaningless.front()));
  }
  HorovodSettings all = given;
  all.insert(file.begin(), file.end());
  for (const auto& [name, value] : variables_of(all)) add_variable(options, name, value);
  meaningless = meaningless_among(all);
  if (!meaningless.empty())
    options.notes.push_back(
        fmt::format("of what Horovod knows, this means nothing here: {}", fmt::join(meaningless, ", ")));
}

void choose_timeline(const Raw& raw, Options& options) {
  if (!raw.timeline) {
    if (raw.mark_cycles) refuse("--timeline-mark-cycles needs --timeline-filename FILE");
    return;
  }
  if (raw.timeline->empty()) refuse("--timeline-filename needs the name of a file");
  add_variable(options, "HORA_TIMELINE", *raw.timeline);
  add_variable(options, "HORA_TIMELINE_MARK_CYCLES", raw.mark_cycles ? "1" : "0");
}

/// Makes a job of it that measures: one rank on each host.
void measure_instead(Options& options, const std::vector<std::string>& command) {
  if (!command.empty()) refuse(fmt::format("--preflight starts no program; leave out '{}'", command.front()));
  options.command = probe_command(options.hosts);
  options.ranks = static_cast<int>(options.hosts.size());
  for (auto& host : options.hosts) host.slots = 1;
  options.shares = place(options.hosts, options.ranks, false);
  options.prefix = false;
  options.elastic.reset();
}

void choose_program(const Raw& raw, const std::vector<std::string>& command, Options& options) {
  if (raw.preflight) return measure_instead(options, command);
  if (command.empty()) throw WrongUsage("there is no program to start");
  options.command = command;
  options.command.front() = find_program(command.front());
}

/// The names of what ranks that mpirun starts get from here, as those get it that hrun starts.
std::vector<std::string> names_for_mpi(const std::vector<std::string>& settings) {
  constexpr const char* kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
  std::vector<std::string> names;
  for (const auto& setting : settings) {
    std::string name = setting.substr(0, setting.find('='));
    if (name != "PWD" && name.find_first_not_of(kLetters) == std::string::npos)
      names.push_back(std::move(name));
  }
  return names;
}

/// --mpi says in a word what takes two; this is the first.
void choose_mpi(Raw& raw) {
  if (!raw.mpi) return;
  if (raw.launcher.value_or("mpi") != "mpi")
    refuse(fmt::format(
        "--mpi and --launcher {} contradict each other: tensors move over MPI where mpirun starts the ranks",
        *raw.launcher));
  raw.launcher = "mpi";
}

/// Open MPI takes what comes before the first colon for the name of a host, brackets or not.
void refuse_what_mpirun_misreads(const std::vector<HostSlots>& hosts) {
  for (const auto& host : hosts) {
    if (host.host.find(':') != std::string::npos)
      refuse(
          fmt::format("{}{}: mpirun takes no IPv6 addresses; give the host a name, in /etc/hosts or "
                      "~/.ssh/config",
                      host.where, host.host));
  }
}

/// hrun's own flags that have no meaning once mpirun starts the ranks are refused.
void choose_hand_over(const Raw& raw, Options& options) {
  if (raw.launcher != "mpi") {
    if (raw.mpi_arguments) refuse("--mpi-args needs --mpi or --launcher mpi");
    return;
  }
  if (raw.horovod) refuse("--horovod needs ranks that hrun itself starts: --launcher ssh or slurm");
  if (raw.output_directory)
    refuse(
        "--output-filename needs ranks that hrun itself starts; mpirun has it, too: --mpi-args "
        "\"--output-filename DIR\"");
  if (raw.metrics) refuse("--metrics needs ranks that hrun itself starts: --launcher ssh or slurm");
  if (raw.preflight) refuse("--preflight needs ranks that hrun itself starts: --launcher ssh or slurm");
  refuse_what_mpirun_misreads(options.hosts);
  if (raw.bind_to != "none")
    refuse(
        "--bind-to needs ranks that hrun itself starts; mpirun has it, too: --mpi-args \"--bind-to core\"");
  MpiJob job;
  job.ranks = options.ranks;
  job.hosts = options.hosts;
  job.oversubscribe = raw.oversubscribe;
  job.as_root = ::geteuid() == 0;
  job.directory = std::filesystem::current_path().string();
  job.network = options.network;
  job.ssh_port = raw.ssh_port;
  job.identity_file = raw.identity_file.value_or("");
  const auto settings = job_environment(own_environment(), options.environment);
  job.variables = names_for_mpi(without_session(settings, options.environment));
  if (raw.timeout > 0)
    job.arguments = {"--timeout", fmt::to_string(static_cast<int>(std::ceil(raw.timeout)))};
  if (raw.reader) job.arguments.insert(job.arguments.end(), {"--stdin", *raw.reader});
  for (auto& word : CLI::detail::split_up(raw.mpi_arguments.value_or("")))
    job.arguments.push_back(std::move(word));
  job.command = options.command;
  options.hand_over = mpirun_command(find_program("mpirun"), job);
  options.hand_over_environment = settings;
}

/// The ranks from `first` on that have files in the directory, which an earlier run with more ranks has left.
std::vector<int> ranks_of_earlier_run(const std::string& directory, int first) {
  constexpr std::string_view kBegin = "rank.";
  std::vector<int> ranks;
  std::error_code unreadable;  // whoever writes there says so
  for (const auto& entry : std::filesystem::directory_iterator(directory, unreadable)) {
    const std::string name = entry.path().filename().string();
    int rank = 0;
    const char* const end = name.data() + name.size();
    if (!name.starts_with(kBegin)) continue;
    const auto [stop, error] = std::from_chars(name.data() + kBegin.size(), end, rank);
    if (error == std::errc() && stop == end && rank >= first) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

void choose_reader(const Raw& raw, Options& options) {
  if (!raw.reader) return;
  int rank = 0;
  if (*raw.reader == "none") {
    options.reader.reset();
  } else if (*raw.reader == "all") {
    options.reader = options.ranks == 1 ? 0 : kEveryRank;
  } else if (!CLI::detail::lexical_cast(*raw.reader, rank) || rank < 0) {
    refuse(fmt::format("--stdin {}: expected a rank, all or none", *raw.reader));
  } else if (rank >= options.ranks) {
    refuse(
        fmt::format("--stdin {}: there is no such rank; this job has {}", rank,
                    options.ranks == 1 ? "rank 0 alone" : fmt::format("ranks 0 to {}", options.ranks - 1)));
  } else {
    options.reader = rank;
  }
}

void choose_output(const Raw& raw, Options& options) {
  if (!raw.output_directory) return;
  if (raw.output_directory->empty()) refuse("--output-filename needs the name of a directory");
  options.output_directory = *raw.output_directory;
  const auto earlier = ranks_of_earlier_run(options.output_directory, options.ranks);
  if (earlier.empty()) return;
  options.notes.push_back(
      fmt::format("what {} has of {} is of an earlier run with more ranks, and stays there",
                  options.output_directory, describe_ranks(earlier)));
}

Options understand(Raw raw, const HorovodSettings& file, const Words& words) {
  Options options;
  options.verbose = raw.verbose;
  choose_mpi(raw);
  choose_hosts(raw, options);
  choose_variables(raw, options);
  if (raw.mpi) add_variable(options, "HORA_CPU_OPERATIONS", "mpi");
  choose_timeline(raw, options);
  choose_start_timeout(raw, options);
  choose_network(raw, options);
  choose_as_horovod_does(file, words.horovods, raw.horovod, options);
  check_elastic(options);
  options.bind_to = parse_bind_to(raw.bind_to);
  options.report_bindings = raw.report_bindings;
  options.prefix = !raw.no_prefix;
  choose_reader(raw, options);
  choose_output(raw, options);
  if (raw.metrics) options.metrics = parse_metrics_address(*raw.metrics);
  options.grace = seconds(raw.grace);
  if (raw.timeout > 0) options.timeout = seconds(raw.timeout);
  choose_program(raw, words.command, options);
  if (raw.launcher != "mpi") choose_remote_hosts(raw, options);
  choose_hand_over(raw, options);
  if (raw.horovod) options.horovod_folder = find_horovod_folder(options);
  return options;
}

/// `hrun analyze DIR`; nothing if the words are others.
std::optional<Answer> answer_analyze(const std::vector<std::string>& words) {
  if (words.empty() || words.front() != "analyze") return std::nullopt;
  if (words.size() != 2 || words.back().starts_with('-'))
    refuse("hrun analyze DIR needs the directory of the dumps; a program called analyze starts as ./analyze");
  try {
    return Answer{analyze(read_dumps(words.back())), 0};
  } catch (const Error& error) {
    return Answer{fmt::format("hrun: {}\n", error.what()), 1};
  }
}

}  // namespace

int Options::slots_of(const std::string& host) const {
  const auto found =
      std::find_if(hosts.begin(), hosts.end(), [&](const HostSlots& one) { return one.host == host; });
  return found == hosts.end() ? 0 : found->slots;
}

std::optional<RemoteHost> Options::remote_host(const std::string& host) const {
  const auto found = std::find_if(remote_hosts.begin(), remote_hosts.end(),
                                  [&](const RemoteHost& one) { return one.host == host; });
  return found == remote_hosts.end() ? std::nullopt : std::optional(*found);
}

Parsed parse_options(const std::vector<std::string>& arguments) {
  const auto wrong_usage = [](const std::string& why) {
    return Parsed{{}, Answer{fmt::format("{}hrun: {}; hrun --help says more\n", kUsage, why), 2}};
  };
  try {
    if (auto answer = answer_analyze(arguments)) return {{}, std::move(answer)};
    if (auto answer = answer_about_job(arguments)) return {{}, std::move(answer)};
    const Words words = split(arguments);
    Raw raw = read(words.flags);
    if (raw.help) return {{}, Answer{fmt::format("{}{}", kUsage, kHelp), 0}};
    if (raw.version) return {{}, Answer{fmt::format("hrun {}\n", version()), 0}};
    if (raw.check_build) return {{}, Answer{build_report(), 0}};
    FileSettings file;
    if (raw.config_file) {
      file = read_config_file(*raw.config_file, takes_value_in_file);
      raw = read_with_file(file, words.flags, raw);
    }
    return {understand(raw, file.horovods, words), {}};
  } catch (const CLI::ParseError& error) {
    return wrong_usage(error.what());
  } catch (const WrongUsage& error) {
    return wrong_usage(error.what());
  } catch (const Error& error) {
    return {{}, Answer{fmt::format("hrun: {}\n", error.what()), 2}};
  }
}

}  // namespace hora::hrun
