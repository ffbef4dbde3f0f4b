// Subgraphs of an interpreter, in C++: what they consist of.

#ifndef TENSORFLOW_LITE_CORE_SUBGRAPH_H_
#define TENSORFLOW_LITE_CORE_SUBGRAPH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "attache/graph.h"
#include "tensorflow/lite/c/common.h"

namespace tflite {

namespace internal {

// The registrations of the program's operators by code, name and version.
using Operators = std::map<std::tuple<int, std::string, int>, TfLiteRegistration>;

}  // namespace internal

// A subgraph of an interpreter, which owns it.
class Subgraph {
 public:
  // Without an interpreter, it is empty.
  Subgraph(
      TfLiteInterpreter* interpreter, int index, std::string name = std::string(),
      std::shared_ptr<const internal::Operators> operators = nullptr)
      : interpreter_(interpreter), index_(index), name_(std::move(name)), operators_(std::move(operators)) {
    if (!interpreter_) return;
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
  bool IsPrimarySubgraph() const { return index_ == 0; }
  const std::string& GetName() const { return name_; }

  // Indices of tensors.
  const std::vector<int>& inputs() const { return inputs_; }
  const std::vector<int>& outputs() const { return outputs_; }
  const std::vector<int>& variables() const { return variables_; }
  size_t tensors_size() const { return tensors_size_; }
  // Null if there is no such tensor.
  TfLiteTensor* tensor(int tensor_index) { return At(tensor_index); }
  const TfLiteTensor* tensor(int tensor_index) const { return At(tensor_index); }
  // All tensors, in the order of their indices.
  TfLiteTensor* tensors() { return At(0); }
  // Whether the shape of a tensor is known only after a run, once tensors are allocated.
  bool HasDynamicTensors() const {
    for (size_t i = 0; i < tensors_size_; ++i) {
      const TfLiteTensor* found = At(static_cast<int>(i));
      if (found->allocation_type == kTfLiteDynamic && found->type != kTfLiteString) return true;
    }
    return false;
  }

  // Sets the extents of an input. AllocateTensors has to follow.
  TfLiteStatus ResizeInputTensor(int tensor_index, const std::vector<int>& dims) {
    TfLiteTensor* input = tensor(tensor_index);
    return input ? attache_tensor_resize(input, dims.data(), static_cast<int32_t>(dims.size())) : kTfLiteError;
  }
  TfLiteStatus ResizeInputTensor(int tensor_index, const int* dims_data, int rank) {
    return ResizeInputTensor(tensor_index, std::vector<int>(dims_data, dims_data + rank));
  }
  // As ResizeInputTensor, and changes only those extents that the model leaves to the program.
  TfLiteStatus ResizeInputTensorStrict(int tensor_index, const std::vector<int>& dims) {
    const TfLiteTensor* input = tensor(tensor_index);
    if (!input) return kTfLiteError;
    const TfLiteIntArray* signature = input->dims_signature;
    const TfLiteIntArray* fixed = signature && signature->size ? signature : input->dims;
    if (static_cast<int>(dims.size()) != fixed->size) return kTfLiteError;
    for (int i = 0; i < fixed->size; ++i) {
      if (fixed->data[i] != -1 && fixed->data[i] != dims[static_cast<size_t>(i)]) return kTfLiteError;
    }
    return ResizeInputTensor(tensor_index, dims);
  }
  // Puts a tensor into memory of the program's; c_api_experimental.h says when.
  TfLiteStatus SetCustomAllocationForTensor(
      int tensor_index, const TfLiteCustomAllocation& allocation, int64_t flags = kTfLiteCustomAllocationFlagsNone) {
    TfLiteTensor* found = tensor(tensor_index);
    return found ? attache_tensor_set_custom_allocation(found, &allocation, flags) : kTfLiteError;
  }
  TfLiteStatus AllocateTensors() {
    return index_ == 0 ? TfLiteInterpreterAllocateTensors(interpreter_)
                       : attache_interpreter_allocate(interpreter_, index_);
  }
  TfLiteStatus Invoke() {
    return index_ == 0 ? TfLiteInterpreterInvoke(interpreter_) : attache_interpreter_invoke(interpreter_, index_);
  }
  // Concerns all subgraphs.
  TfLiteStatus ResetVariableTensors() { return TfLiteInterpreterResetVariableTensors(interpreter_); }

  // Nodes have the indices of the file's operators. Where delegates run some, nodes with higher indices stand for their
  // partitions in the plan.
  size_t nodes_size() const {
    const int32_t count = interpreter_ ? attache_interpreter_node_count(interpreter_, index_) : 0;
    return count < 0 ? 0 : static_cast<size_t>(count);
  }
  // The indices of the nodes in the order in which they run, as they are now.
  const std::vector<int>& execution_plan() const {
    int32_t count = 0;
    const int* plan = interpreter_ ? attache_interpreter_execution_plan(interpreter_, index_, &count) : nullptr;
    execution_plan_.assign(plan, plan + (plan ? count : 0));
    return execution_plan_;
  }
  // What describes a node, valid until the interpreter is changed; null if there is none. Only registrations of the
  // program's operators have functions.
  const std::pair<TfLiteNode, TfLiteRegistration>* node_and_registration(int node_index) const {
    if (node_index < 0 || static_cast<size_t>(node_index) >= nodes_size()) return nullptr;
    TfLiteNode* node = nullptr;
    TfLiteRegistration* registration = nullptr;
    if (attache_interpreter_node(interpreter_, index_, node_index, &node, &registration) != kTfLiteOk) return nullptr;
    nodes_[node_index] = std::make_pair(*node, WithFunctions(*registration));
    return &nodes_[node_index];
  }

  // Those of all indices. The list is made again by each call.
  const std::vector<std::pair<TfLiteNode, TfLiteRegistration>>& nodes_and_registration() const {
    all_nodes_.clear();
    for (size_t i = 0; i < nodes_size(); ++i) {
      if (const auto* node = node_and_registration(static_cast<int>(i))) all_nodes_.push_back(*node);
    }
    return all_nodes_;
  }

  // Whether delegates run nodes of it, and all of them.
  bool HasDelegates() const { return CountDelegates() > 0; }
  bool IsFullyDelegated() const { return HasDelegates() && CountDelegates() == execution_plan_.size(); }

 private:
  TfLiteTensor* At(int index) const {
    const bool is_there = index >= 0 && static_cast<size_t>(index) < tensors_size_;
    return is_there ? attache_interpreter_tensor(interpreter_, index_, index) : nullptr;
  }

  TfLiteRegistration WithFunctions(const TfLiteRegistration& of_file) const {
    if (!operators_) return of_file;
    const char* name = of_file.custom_name ? of_file.custom_name : "";
    const auto found = operators_->find(std::make_tuple(of_file.builtin_code, std::string(name), of_file.version));
    if (found == operators_->end()) return of_file;
    TfLiteRegistration registration = found->second;
    registration.builtin_code = of_file.builtin_code;
    registration.custom_name = of_file.custom_name;
    registration.version = of_file.version;
    return registration;
  }

  size_t CountDelegates() const {
    size_t count = 0;
    for (const int node : execution_plan()) {
      const auto* found = node_and_registration(node);
      count += found && found->second.builtin_code == kTfLiteBuiltinDelegate;
    }
    return count;
  }

  TfLiteInterpreter* interpreter_;
  int index_;
  std::string name_;
  std::shared_ptr<const internal::Operators> operators_;
  std::vector<int> inputs_;
  std::vector<int> outputs_;
  std::vector<int> variables_;
  size_t tensors_size_ = 0;
  mutable std::vector<int> execution_plan_;
  mutable std::map<int, std::pair<TfLiteNode, TfLiteRegistration>> nodes_;
  mutable std::vector<std::pair<TfLiteNode, TfLiteRegistration>> all_nodes_;
};

}  // namespace tflite

#endif
