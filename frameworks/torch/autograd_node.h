// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>

namespace hora {

/// How LibTorch holds a node of autograd's graph: by std::shared_ptr in 2.11, by c10::intrusive_ptr in 2.15.
using NodePointer = decltype(torch::autograd::Edge::function);

// Templates, because deleteNode, and a Node that an intrusive_ptr can hold, are only declared where they are
// needed.
template <typename Node>
std::shared_ptr<Node> hold(std::unique_ptr<Node> node, std::type_identity<std::shared_ptr<Node>> /*how*/) {
  return {node.release(), [](Node* each) { deleteNode(each); }};
}
template <typename Node>
c10::intrusive_ptr<Node> hold(std::unique_ptr<Node> node,
                              std::type_identity<c10::intrusive_ptr<Node>> /*how*/) {
  return c10::intrusive_ptr<Node>(std::move(node));
}

inline NodePointer hold(std::unique_ptr<torch::autograd::Node> node) {
  return hold(std::move(node), std::type_identity<NodePointer>());
}

}  // namespace hora
