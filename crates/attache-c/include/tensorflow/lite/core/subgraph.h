// Subgraphs of an interpreter, in C++: what they consist of.

#ifndef TENSORFLOW_LITE_CORE_SUBGRAPH_H_
#define TENSORFLOW_LITE_CORE_SUBGRAPH_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "attache/graph.h"
#include "tensorflow/lite/c/common.h"

namespace tflite {

// A subgraph of an interpreter, which owns it. Signature runners and the interpreter run it.
class Subgraph {
 public:
  Subgraph(TfLiteInterpreter* interpreter, int index) : interpreter_(interpreter), index_(index) {
    int32_t count = 0;
    const int* list = attache_interpreter_inputs(interpreter_, index_, &count);
    inputs_.assign(list, list + count);
    list = attache_interpreter_outputs(interpreter_, index_, &count);
    outputs_.assign(list, list + count);
    tensors_size_ = static_cast<size_t>(attache_interpreter_tensor_count(interpreter_, index_));
    for (size_t i = 0; i < tensors_size_; ++i) {
      if (tensor(static_cast<int>(i))->is_variable) variables_.push_back(static_cast<int>(i));
    }
  }
  Subgraph(const Subgraph&) = delete;
  Subgraph& operator=(const Subgraph&) = delete;

  int GetSubgraphIndex() const { return index_; }

  // Indices of tensors.
  const std::vector<int>& inputs() const { return inputs_; }
  const std::vector<int>& outputs() const { return outputs_; }
  const std::vector<int>& variables() const { return variables_; }
  size_t tensors_size() const { return tensors_size_; }
  // Null if there is no such tensor.
  TfLiteTensor* tensor(int tensor_index) { return attache_interpreter_tensor(interpreter_, index_, tensor_index); }
  const TfLiteTensor* tensor(int tensor_index) const {
    return attache_interpreter_tensor(interpreter_, index_, tensor_index);
  }

  // Nodes have the indices of the file's operators. Where delegates run some, nodes with higher indices stand for their
  // partitions in the plan.
  size_t nodes_size() const {
    const int32_t count = attache_interpreter_node_count(interpreter_, index_);
    return count < 0 ? 0 : static_cast<size_t>(count);
  }
  // The indices of the nodes in the order in which they run, as they are now.
  const std::vector<int>& execution_plan() const {
    int32_t count = 0;
    const int* plan = attache_interpreter_execution_plan(interpreter_, index_, &count);
    execution_plan_.assign(plan, plan + (plan ? count : 0));
    return execution_plan_;
  }
  // What describes a node, valid until the interpreter is changed; null if there is none. Registrations have no functions.
  const std::pair<TfLiteNode, TfLiteRegistration>* node_and_registration(int node_index) const {
    if (node_index < 0 || static_cast<size_t>(node_index) >= nodes_size()) return nullptr;
    TfLiteNode* node = nullptr;
    TfLiteRegistration* registration = nullptr;
    if (attache_interpreter_node(interpreter_, index_, node_index, &node, &registration) != kTfLiteOk) return nullptr;
    nodes_[node_index] = std::make_pair(*node, *registration);
    return &nodes_[node_index];
  }

 private:
  TfLiteInterpreter* interpreter_;
  int index_;
  std::vector<int> inputs_;
  std::vector<int> outputs_;
  std::vector<int> variables_;
  size_t tensors_size_ = 0;
  mutable std::vector<int> execution_plan_;
  mutable std::map<int, std::pair<TfLiteNode, TfLiteRegistration>> nodes_;
};

}  // namespace tflite

#endif
