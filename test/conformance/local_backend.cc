// SPDX-License-Identifier: Apache-2.0
#include "core/backend/local/control_queues.h"
#include "core/backend/local/message_boxes.h"
#include "core/backend/local/rendezvous.h"
#include "test/conformance/collective_suite.h"
#include "test/conformance/control_suite.h"
#include "test/conformance/messenger_suite.h"

namespace hora {
namespace {

const RegisterCollective kLocalCollective{{"local", [](int ranks) {
                                             const auto rendezvous =
                                                 std::make_shared<local::Rendezvous>(ranks);
                                             std::vector<std::unique_ptr<Collective>> all;
                                             for (int rank = 0; rank < ranks; ++rank)
                                               all.push_back(local::make_local_collective(rendezvous, rank));
                                             return all;
                                           }}};

std::vector<std::unique_ptr<Control>> local_controls(int ranks, int radix) {
  const auto queues = std::make_shared<local::ControlQueues>(ranks, radix);
  std::vector<std::unique_ptr<Control>> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(local::make_local_control(queues, rank));
  return all;
}

const RegisterControl kLocalControl{{"local", [](int ranks) { return local_controls(ranks, 0); }}};
const RegisterControl kLocalTree{{"local_tree", [](int ranks) { return local_controls(ranks, 2); }}};

const RegisterMessenger kLocalMessenger{{"local", [](int ranks) {
                                           const auto boxes = std::make_shared<local::MessageBoxes>(ranks);
                                           std::vector<std::unique_ptr<Messenger>> all;
                                           for (int rank = 0; rank < ranks; ++rank)
                                             all.push_back(local::make_local_messenger(boxes, rank));
                                           return all;
                                         }}};

}  // namespace
}  // namespace hora
