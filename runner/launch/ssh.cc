// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/ssh.h"

#include "runner/launch/process.h"

#include <fmt/format.h>

namespace hora::hrun {
namespace {

constexpr int kNoProgram = 127;   // as shells say that a program is missing
constexpr int kOwnTrouble = 255;  // as ssh says that it has told why

}  // namespace

std::vector<std::string> ssh_command(const std::string& ssh, const std::string& host,
                                     const SshOptions& options, const std::string& hrun) {
  std::vector<std::string> words{ssh, "-T", "-x"};
  const std::string timeout = fmt::format("ConnectTimeout={}", options.connect_timeout);
  for (const auto& option : {std::string("BatchMode=yes"), std::string("ClearAllForwardings=yes"), timeout}) {
    words.emplace_back("-o");
    words.push_back(option);
  }
  if (options.port) {
    words.emplace_back("-p");
    words.push_back(fmt::to_string(*options.port));
  }
  if (!options.identity_file.empty()) {
    words.emplace_back("-i");
    words.push_back(options.identity_file);
  }
  words.emplace_back("--");
  words.push_back(host);
  // The login shell there may be any; this one has few words for it.
  words.push_back(fmt::format(R"(exec /bin/sh -c 'test -x "$0" || exec hrun --agent; exec "$0" --agent' {})",
                              shell_quoted(hrun)));
  return words;
}

std::string explain_ssh(const std::string& words, int exit_code, const std::string& host,
                        const std::string& hrun) {
  const bool found = words.find("shared librar") != std::string::npos;  // the loader's complaint about hrun
  if (exit_code == kNoProgram && !found) {
    return fmt::format(
        "there is no hrun: neither {} nor one in PATH (of a shell without login); install Hora "
        "there at the same place as here{}",
        hrun, words.empty() ? "" : ": " + words);
  }
  std::string why = words;
  if (words.empty()) {
    why = fmt::format("ssh ended with code {} and said nothing", exit_code);
  } else if (exit_code != kOwnTrouble) {  // the words may be no more than a banner
    why = fmt::format("ssh ended with code {}: {}", exit_code, words);
  }
  if (words.find("Host key verification failed") != std::string::npos) {
    why += fmt::format("; look at the host's key and accept it: `ssh {}` asks for that once", host);
  } else if (words.find("Permission denied") != std::string::npos) {
    why += fmt::format(
        "; hrun can type no password: `ssh-copy-id {}` gives the host a key of yours, -i "
        "chooses one",
        host);
  }
  return why;
}

}  // namespace hora::hrun
