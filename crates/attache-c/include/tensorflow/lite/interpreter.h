// Interpreters, in C++: a thin layer over the C API, which states what is valid how long.

#ifndef TENSORFLOW_LITE_INTERPRETER_H_
#define TENSORFLOW_LITE_INTERPRETER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attache/graph.h"
#include "tensorflow/lite/c/c_api_experimental.h"
#include "tensorflow/lite/core/subgraph.h"
#include "tensorflow/lite/error_reporter.h"
#include "tensorflow/lite/portable_type_to_tflitetype.h"
#include "tensorflow/lite/signature_runner.h"

namespace tflite {
// A delegate, and the function that deletes it.
using TfLiteDelegatePtr = std::unique_ptr<TfLiteDelegate, void (*)(TfLiteDelegate*)>;

// Runs a model. InterpreterBuilder makes it. One thread at a time uses it, except for Cancel.
class Interpreter {
 public:
  using TfLiteDelegatePtr = tflite::TfLiteDelegatePtr;

  // Takes an interpreter of the C API over. The reporter stays the caller's.
  explicit Interpreter(TfLiteInterpreter* interpreter, ErrorReporter* error_reporter = DefaultErrorReporter())
      : interpreter_(interpreter), error_reporter_(error_reporter) {
    const int32_t count = attache_interpreter_subgraph_count(interpreter_);
    subgraphs_.resize(count > 0 ? static_cast<size_t>(count) : 0);
    const int32_t signature_count = TfLiteInterpreterGetSignatureCount(interpreter_);
    for (int32_t i = 0; i < signature_count; ++i) {
      signature_keys_.push_back(new std::string(TfLiteInterpreterGetSignatureKey(interpreter_, i)));
    }
  }
  ~Interpreter() {
    runners_.clear();
    for (const std::string* key : signature_keys_) delete key;
    TfLiteInterpreterDelete(interpreter_);
  }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Indices of tensors.
  const std::vector<int>& inputs() const { return primary().inputs(); }
  const std::vector<int>& outputs() const { return primary().outputs(); }
  const std::vector<int>& variables() const { return primary().variables(); }
  size_t tensors_size() const { return primary().tensors_size(); }
  const char* GetInputName(int index) const { return TfLiteTensorName(input_tensor(index)); }
  const char* GetOutputName(int index) const { return TfLiteTensorName(output_tensor(index)); }

  // A tensor by its index; null if there is none. The field data of inputs, outputs and constants is set from
  // AllocateTensors to the next resize.
  TfLiteTensor* tensor(int tensor_index) { return TfLiteInterpreterGetTensor(interpreter_, tensor_index); }
  const TfLiteTensor* tensor(int tensor_index) const { return TfLiteInterpreterGetTensor(interpreter_, tensor_index); }
  // A tensor by its position in inputs() or outputs().
  TfLiteTensor* input_tensor(size_t index) { return tensor(At(inputs(), index)); }
  const TfLiteTensor* input_tensor(size_t index) const { return tensor(At(inputs(), index)); }
  TfLiteTensor* output_tensor(size_t index) { return tensor(At(outputs(), index)); }
  const TfLiteTensor* output_tensor(size_t index) const { return tensor(At(outputs(), index)); }

  // The elements of a tensor; null if they are of another type.
  template <typename T>
  T* typed_tensor(int tensor_index) {
    return Elements<T>(TfLiteInterpreterGetTensor(interpreter_, tensor_index));
  }
  template <typename T>
  const T* typed_tensor(int tensor_index) const {
    return Elements<T>(TfLiteInterpreterGetTensor(interpreter_, tensor_index));
  }
  template <typename T>
  T* typed_input_tensor(int index) {
    return typed_tensor<T>(At(inputs(), static_cast<size_t>(index)));
  }
  template <typename T>
  const T* typed_input_tensor(int index) const {
    return typed_tensor<T>(At(inputs(), static_cast<size_t>(index)));
  }
  template <typename T>
  T* typed_output_tensor(int index) {
    return typed_tensor<T>(At(outputs(), static_cast<size_t>(index)));
  }
  template <typename T>
  const T* typed_output_tensor(int index) const {
    return typed_tensor<T>(At(outputs(), static_cast<size_t>(index)));
  }

  // The nodes of the main subgraph; core/subgraph.h says what they are.
  size_t nodes_size() const { return primary().nodes_size(); }
  const std::vector<int>& execution_plan() const { return primary().execution_plan(); }
  const std::pair<TfLiteNode, TfLiteRegistration>* node_and_registration(int node_index) const {
    return primary().node_and_registration(node_index);
  }

  size_t subgraphs_size() const { return subgraphs_.size(); }
  // Null if there is no such subgraph.
  Subgraph* subgraph(int subgraph_index) { return At(subgraph_index); }
  const Subgraph* subgraph(int subgraph_index) const { return At(subgraph_index); }
  Subgraph& primary_subgraph() { return primary(); }
  const Subgraph& primary_subgraph() const { return primary(); }

  // Sets the extents of an input, given by its index among all tensors. AllocateTensors has to follow.
  TfLiteStatus ResizeInputTensor(int tensor_index, const std::vector<int>& dims) {
    TfLiteTensor* input = tensor(tensor_index);
    return input ? attache_tensor_resize(input, dims.data(), static_cast<int32_t>(dims.size())) : kTfLiteError;
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
    return TfLiteInterpreterSetCustomAllocationForTensor(interpreter_, tensor_index, &allocation, flags);
  }
  TfLiteStatus EnsureTensorDataIsReadable(int tensor_index) {
    return TfLiteInterpreterEnsureTensorDataIsReadable(interpreter_, tensor_index);
  }
  TfLiteStatus AllocateTensors() { return TfLiteInterpreterAllocateTensors(interpreter_); }
  TfLiteStatus Invoke() { return TfLiteInterpreterInvoke(interpreter_); }
  // Cancel stops the run that is under way, from any thread, and is an error unless EnableCancellation was called.
  TfLiteStatus EnableCancellation() { return attache_interpreter_enable_cancellation(interpreter_); }
  TfLiteStatus Cancel() { return TfLiteInterpreterCancel(interpreter_); }
  TfLiteStatus ResetVariableTensors() { return TfLiteInterpreterResetVariableTensors(interpreter_); }

  // Adds a delegate, and allocates tensors where the shapes of inputs are known.
  TfLiteStatus ModifyGraphWithDelegate(TfLiteDelegate* delegate) {
    return TfLiteInterpreterModifyGraphWithDelegate(interpreter_, delegate);
  }
  // Keeps the delegate as long as the interpreter.
  template <typename Deleter>
  TfLiteStatus ModifyGraphWithDelegate(std::unique_ptr<TfLiteDelegate, Deleter> delegate) {
    TfLiteDelegate* raw = delegate.get();
    delegates_.push_back(std::shared_ptr<TfLiteDelegate>(std::move(delegate)));
    return ModifyGraphWithDelegate(raw);
  }

  // Sets the number of threads from the next run on; -1 for the library's choice.
  TfLiteStatus SetNumThreads(int num_threads) {
    return attache_interpreter_set_num_threads(interpreter_, num_threads);
  }
  // A note without effect: the CPU computes floats in their own precision, and options of delegates decide theirs.
  void SetAllowFp16PrecisionForFp32(bool allow) { allows_fp16_ = allow; }
  bool GetAllowFp16PrecisionForFp32() const { return allows_fp16_; }
  ErrorReporter* error_reporter() const { return error_reporter_; }

  // Handles of buffers; c_api_experimental.h says what becomes of them.
  TfLiteStatus SetBufferHandle(int tensor_index, TfLiteBufferHandle handle, TfLiteDelegate* delegate) {
    return SetBufferHandle(tensor(tensor_index), handle, delegate);
  }
  TfLiteStatus SetBufferHandle(TfLiteTensor* tensor, TfLiteBufferHandle handle, TfLiteDelegate* delegate) {
    return TfLiteInterpreterSetBufferHandle(interpreter_, tensor, handle, delegate);
  }
  TfLiteStatus GetBufferHandle(int tensor_index, TfLiteBufferHandle* handle, TfLiteDelegate** delegate) {
    return TfLiteInterpreterGetBufferHandle(interpreter_, tensor_index, handle, delegate);
  }
  void SetAllowBufferHandleOutput(bool allow) { TfLiteSetAllowBufferHandleOutput(interpreter_, allow); }

  const std::vector<const std::string*>& signature_keys() const { return signature_keys_; }
  // Null if there is no such signature. A null key stands for the first one or, in a model without signatures, for the
  // main subgraph, whose inputs and outputs have the names of their tensors.
  SignatureRunner* GetSignatureRunner(const char* key) {
    if (!key && !signature_keys_.empty()) key = signature_keys_[0]->c_str();
    const std::string name = key ? key : "";
    auto found = runners_.find(name);
    if (found == runners_.end()) {
      TfLiteSignatureRunner* runner = TfLiteInterpreterGetSignatureRunner(interpreter_, key);
      if (!runner) return nullptr;
      const int subgraph = key ? GetSubgraphIndexFromSignature(key) : 0;
      std::unique_ptr<SignatureRunner> made(new SignatureRunner(interpreter_, runner, name, subgraph));
      found = runners_.emplace(name, std::move(made)).first;
    }
    return found->second.get();
  }

  // -1 if there is no such signature.
  int GetSubgraphIndexFromSignature(const char* key) const {
    return attache_interpreter_signature_subgraph(interpreter_, key);
  }
  // The index of the tensor of each input or output, by its name; empty if there is no such signature.
  const std::map<std::string, uint32_t>& signature_inputs(const char* key) const {
    return Named(signature_inputs_, key, TfLiteSignatureRunnerGetInputCount, TfLiteSignatureRunnerGetInputName,
                 [](TfLiteSignatureRunner* runner, const char* name) -> const TfLiteTensor* {
                   return TfLiteSignatureRunnerGetInputTensor(runner, name);
                 });
  }
  const std::map<std::string, uint32_t>& signature_outputs(const char* key) const {
    return Named(signature_outputs_, key, TfLiteSignatureRunnerGetOutputCount, TfLiteSignatureRunnerGetOutputName,
                 [](TfLiteSignatureRunner* runner, const char* name) -> const TfLiteTensor* {
                   return TfLiteSignatureRunnerGetOutputTensor(runner, name);
                 });
  }

  // Null if there is no such signature, or none with this input or output.
  TfLiteTensor* input_tensor_by_signature(const char* input_name, const char* key) {
    SignatureRunner* runner = GetSignatureRunner(key);
    return runner ? runner->input_tensor(input_name) : nullptr;
  }
  const TfLiteTensor* output_tensor_by_signature(const char* output_name, const char* key) {
    SignatureRunner* runner = GetSignatureRunner(key);
    return runner ? runner->output_tensor(output_name) : nullptr;
  }

  TfLiteInterpreter* c_interpreter() { return interpreter_; }

 private:
  using Names = std::map<std::string, uint32_t>;

  static int At(const std::vector<int>& list, size_t index) { return index < list.size() ? list[index] : -1; }

  Subgraph* At(int index) const {
    if (index < 0 || static_cast<size_t>(index) >= subgraphs_.size()) return nullptr;
    std::unique_ptr<Subgraph>& subgraph = subgraphs_[static_cast<size_t>(index)];
    if (!subgraph) subgraph.reset(new Subgraph(interpreter_, index));
    return subgraph.get();
  }
  Subgraph& primary() const { return *At(0); }

  template <typename Count, typename Name, typename Tensor>
  const Names& Named(std::map<std::string, Names>& known, const char* key, Count count, Name name, Tensor tensor) const {
    static const Names none;
    const int subgraph = GetSubgraphIndexFromSignature(key);
    if (subgraph < 0) return none;
    auto found = known.find(key);
    if (found == known.end()) {
      found = known.emplace(key, Names()).first;
      TfLiteSignatureRunner* runner = TfLiteInterpreterGetSignatureRunner(interpreter_, key);
      const TfLiteTensor* first = attache_interpreter_tensor(interpreter_, subgraph, 0);
      for (size_t i = 0; i < count(runner); ++i) {
        const char* text = name(runner, static_cast<int32_t>(i));
        found->second[text] = static_cast<uint32_t>(tensor(runner, text) - first);
      }
      TfLiteSignatureRunnerDelete(runner);
    }
    return found->second;
  }

  template <typename T>
  static T* Elements(TfLiteTensor* tensor) {
    const TfLiteType type = typeToTfLiteType<T>();
    const bool fits = tensor && type != kTfLiteNoType && tensor->type == type;
    return fits ? static_cast<T*>(TfLiteTensorData(tensor)) : nullptr;
  }

  // Delegates of the program's are destroyed after the interpreter.
  std::vector<std::shared_ptr<TfLiteDelegate>> delegates_;
  TfLiteInterpreter* interpreter_;
  ErrorReporter* error_reporter_;
  bool allows_fp16_ = false;
  // Made when they are first asked for.
  mutable std::vector<std::unique_ptr<Subgraph>> subgraphs_;
  mutable std::map<std::string, Names> signature_inputs_;
  mutable std::map<std::string, Names> signature_outputs_;
  std::vector<const std::string*> signature_keys_;
  std::map<std::string, std::unique_ptr<SignatureRunner>> runners_;
};

}  // namespace tflite

#endif
