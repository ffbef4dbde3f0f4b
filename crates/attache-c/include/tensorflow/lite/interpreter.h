// Interpreters, in C++: a thin layer over the C API, which states what is valid how long.

#ifndef TENSORFLOW_LITE_INTERPRETER_H_
#define TENSORFLOW_LITE_INTERPRETER_H_

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attache/graph.h"
#include "tensorflow/lite/c/c_api_experimental.h"
#include "tensorflow/lite/core/api/profiler.h"
#include "tensorflow/lite/core/subgraph.h"
#include "tensorflow/lite/error_reporter.h"
#include "tensorflow/lite/interpreter_options.h"
#include "tensorflow/lite/portable_type_to_tflitetype.h"
#include "tensorflow/lite/schema/schema_generated.h"
#include "tensorflow/lite/signature_runner.h"

namespace tflite {
// A delegate, and the function that deletes it.
using TfLiteDelegatePtr = std::unique_ptr<TfLiteDelegate, void (*)(TfLiteDelegate*)>;

namespace internal {

// Several profilers as one, which does not own them.
class Profilers : public Profiler {
 public:
  using Profiler::AddEvent;
  using Profiler::BeginEvent;
  uint32_t BeginEvent(const char* tag, EventType event_type, int64_t first, int64_t second) override {
    std::vector<std::pair<Profiler*, uint32_t>>& begun = begun_[++last_];
    for (Profiler* profiler : profilers) begun.emplace_back(profiler, profiler->BeginEvent(tag, event_type, first, second));
    return last_;
  }
  void EndEvent(uint32_t handle) override {
    for (const auto& event : begun_[handle]) event.first->EndEvent(event.second);
    begun_.erase(handle);
  }
  void EndEvent(uint32_t handle, int64_t first, int64_t second) override {
    for (const auto& event : begun_[handle]) event.first->EndEvent(event.second, first, second);
    begun_.erase(handle);
  }
  void AddEvent(const char* tag, EventType event_type, uint64_t time, int64_t first, int64_t second) override {
    for (Profiler* profiler : profilers) profiler->AddEvent(tag, event_type, time, first, second);
  }
  void AddEventWithData(const char* tag, EventType event_type, const void* data) override {
    for (Profiler* profiler : profilers) profiler->AddEventWithData(tag, event_type, data);
  }

  // The same for functions of C.
  static uint32_t Begin(void* all, const char* tag, int32_t type, int64_t first, int64_t second) {
    return static_cast<Profilers*>(all)->BeginEvent(tag, static_cast<EventType>(type), first, second);
  }
  static void End(void* all, uint32_t handle) { static_cast<Profilers*>(all)->EndEvent(handle); }

  std::vector<Profiler*> profilers;

 private:
  std::map<uint32_t, std::vector<std::pair<Profiler*, uint32_t>>> begun_;
  uint32_t last_ = 0;
};

}  // namespace internal

// Runs a model. InterpreterBuilder makes it. One thread at a time uses it, except for Cancel.
class Interpreter {
 public:
  using TfLiteDelegatePtr = tflite::TfLiteDelegatePtr;

  // An interpreter without a model: it is empty and cannot run. The reporter stays the caller's.
  explicit Interpreter(ErrorReporter* error_reporter = DefaultErrorReporter())
      : interpreter_(nullptr), error_reporter_(error_reporter ? error_reporter : DefaultErrorReporter()), subgraphs_(1) {}
  // Takes an interpreter of the C API over. It keeps what owns the bytes of the model, which the tables are in, and shows the
  // operators of the program's.
  explicit Interpreter(
      TfLiteInterpreter* interpreter, ErrorReporter* error_reporter = DefaultErrorReporter(),
      std::shared_ptr<const void> model = nullptr, const Model* tables = nullptr,
      std::shared_ptr<const internal::Operators> operators = nullptr)
      : model_(std::move(model)),
        tables_(tables),
        operators_(std::move(operators)),
        interpreter_(interpreter),
        error_reporter_(error_reporter ? error_reporter : DefaultErrorReporter()) {
    const int32_t count = attache_interpreter_subgraph_count(interpreter_);
    subgraphs_.resize(count > 0 ? static_cast<size_t>(count) : 1);
    const int32_t signature_count = TfLiteInterpreterGetSignatureCount(interpreter_);
    for (int32_t i = 0; i < signature_count; ++i) {
      signature_keys_.push_back(new std::string(TfLiteInterpreterGetSignatureKey(interpreter_, i)));
    }
  }
  ~Interpreter() {
    runners_.clear();
    for (const std::string* key : signature_keys_) delete key;
    if (interpreter_) TfLiteInterpreterDelete(interpreter_);
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
  TfLiteTensor* tensor(int tensor_index) { return primary().tensor(tensor_index); }
  const TfLiteTensor* tensor(int tensor_index) const { return primary().tensor(tensor_index); }
  // A tensor by its position in inputs() or outputs().
  TfLiteTensor* input_tensor(size_t index) { return tensor(At(inputs(), index)); }
  const TfLiteTensor* input_tensor(size_t index) const { return tensor(At(inputs(), index)); }
  TfLiteTensor* output_tensor(size_t index) { return tensor(At(outputs(), index)); }
  const TfLiteTensor* output_tensor(size_t index) const { return tensor(At(outputs(), index)); }

  // The elements of a tensor; null if they are of another type.
  template <typename T>
  T* typed_tensor(int tensor_index) {
    return Elements<T>(primary().tensor(tensor_index));
  }
  template <typename T>
  const T* typed_tensor(int tensor_index) const {
    return Elements<T>(primary().tensor(tensor_index));
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
  const std::pair<TfLiteNode, TfLiteRegistration>* node_and_registration(int subgraph_index, int node_index) const {
    const Subgraph* found = subgraph(subgraph_index);
    return found ? found->node_and_registration(node_index) : nullptr;
  }
  // What an operator of the program's says about its work; null if it says nothing.
  const char* OpProfilingString(const TfLiteRegistration& registration, const TfLiteNode* node) const {
    return registration.profiling_string ? registration.profiling_string(nullptr, node) : nullptr;
  }

  size_t subgraphs_size() const { return subgraphs_.size(); }
  // Null if there is no such subgraph.
  Subgraph* subgraph(int subgraph_index) { return At(subgraph_index); }
  const Subgraph* subgraph(int subgraph_index) const { return At(subgraph_index); }
  Subgraph& primary_subgraph() { return primary(); }
  const Subgraph& primary_subgraph() const { return primary(); }

  // Sets the extents of an input, given by its index among all tensors. AllocateTensors has to follow.
  TfLiteStatus ResizeInputTensor(int tensor_index, const std::vector<int>& dims) {
    return primary().ResizeInputTensor(tensor_index, dims);
  }
  // As ResizeInputTensor, and changes only those extents that the model leaves to the program.
  TfLiteStatus ResizeInputTensorStrict(int tensor_index, const std::vector<int>& dims) {
    return primary().ResizeInputTensorStrict(tensor_index, dims);
  }
  // Puts a tensor into memory of the program's; c_api_experimental.h says when.
  TfLiteStatus SetCustomAllocationForTensor(
      int tensor_index, const TfLiteCustomAllocation& allocation, int64_t flags = kTfLiteCustomAllocationFlagsNone) {
    return TfLiteInterpreterSetCustomAllocationForTensor(interpreter_, tensor_index, &allocation, flags);
  }
  TfLiteStatus EnsureTensorDataIsReadable(int tensor_index) {
    return TfLiteInterpreterEnsureTensorDataIsReadable(interpreter_, tensor_index);
  }
  TfLiteStatus AllocateTensors() {
    return TfLiteInterpreterAllocateTensors(interpreter_);
  }
  TfLiteStatus Invoke() {
    if (!interpreter_) {
      error_reporter_->Report("Invoke called on model that is not ready.");
      return kTfLiteError;
    }
    Profiler* const profiler = GetProfiler();
    const auto type = Profiler::EventType::GENERAL_RUNTIME_INSTRUMENTATION_EVENT;
    const uint32_t event = profiler ? profiler->BeginEvent("invoke", type, -1, 0) : 0;
    const TfLiteStatus status = TfLiteInterpreterInvoke(interpreter_);
    if (profiler) profiler->EndEvent(event, 0, status);
    return status;
  }
  // Lets go of the memory of tensors, apart from variables and the program's own. AllocateTensors has to follow.
  TfLiteStatus ReleaseNonPersistentMemory() { return attache_interpreter_release_memory(interpreter_); }
  // Sets a function that runs ask, on the thread that runs, before each operator, or group of operators, on the CPU and
  // before each partition of a delegate. Where it returns true, Invoke returns kTfLiteError. Null removes it.
  void SetCancellationFunction(void* data, bool (*check_cancelled_func)(void*)) {
    attache_interpreter_set_cancellation_function(interpreter_, data, check_cancelled_func);
  }
  // Cancel stops the run that is under way, from any thread, and is an error unless EnableCancellation was called.
  TfLiteStatus EnableCancellation() { return attache_interpreter_enable_cancellation(interpreter_); }
  TfLiteStatus Cancel() { return TfLiteInterpreterCancel(interpreter_); }
  TfLiteStatus ResetVariableTensors() { return TfLiteInterpreterResetVariableTensors(interpreter_); }

  // Adds a delegate, and allocates tensors where the shapes of inputs are known.
  TfLiteStatus ModifyGraphWithDelegate(TfLiteDelegate* delegate) {
    return TfLiteInterpreterModifyGraphWithDelegate(interpreter_, delegate);
  }
  // Keeps the delegate as long as the interpreter.
  template <typename Delegate, typename Deleter>
  TfLiteStatus ModifyGraphWithDelegate(std::unique_ptr<Delegate, Deleter> delegate) {
    TfLiteDelegate* raw = delegate.get();
    delegates_.push_back(std::shared_ptr<Delegate>(std::move(delegate)));
    return ModifyGraphWithDelegate(raw);
  }
  // The default deleter does not know how to delete a delegate.
  TfLiteStatus ModifyGraphWithDelegate(std::unique_ptr<TfLiteDelegate> delegate) = delete;

  // Sets the number of threads from the next run on; -1 for the library's choice.
  TfLiteStatus SetNumThreads(int num_threads) {
    return attache_interpreter_set_num_threads(interpreter_, num_threads);
  }
  // A note without effect: the CPU computes floats in their own precision, and options of delegates decide theirs.
  void SetAllowFp16PrecisionForFp32(bool allow) { allows_fp16_ = allow; }
  bool GetAllowFp16PrecisionForFp32() const { return allows_fp16_; }
  ErrorReporter* error_reporter() const { return error_reporter_; }

  // Profilers are told when tensors are allocated, and when subgraphs and their nodes run (attache/graph.h). They stay the
  // caller's unless they are owned. A new one takes the place of all others, and null removes them.
  void SetProfiler(Profiler* profiler) {
    if (!profiler && interpreter_) attache_interpreter_set_profiler(interpreter_, nullptr, nullptr, nullptr);
    profilers_.profilers.clear();
    own_profilers_.clear();
    AddProfiler(profiler);
  }
  void SetProfiler(std::unique_ptr<Profiler> profiler) {
    SetProfiler(profiler.get());
    if (profiler) own_profilers_.push_back(std::move(profiler));
  }
  void AddProfiler(Profiler* profiler) {
    if (!profiler) return;
    profilers_.profilers.push_back(profiler);
    if (interpreter_) {
      attache_interpreter_set_profiler(
          interpreter_, &profilers_, internal::Profilers::Begin, internal::Profilers::End);
    }
  }
  void AddProfiler(std::unique_ptr<Profiler> profiler) {
    AddProfiler(profiler.get());
    if (profiler) own_profilers_.push_back(std::move(profiler));
  }
  // All of them as one; null if there is none.
  Profiler* GetProfiler() { return profilers_.profilers.empty() ? nullptr : &profilers_; }

  // An error if intermediate tensors are to be preserved: only options of the builder can say so.
  TfLiteStatus ApplyOptions(InterpreterOptions* options) {
    if (!options || !options->GetPreserveAllTensors()) return kTfLiteOk;
    error_reporter_->Report("Intermediate tensors are preserved where the options of InterpreterBuilder say so.");
    return kTfLiteError;
  }

  // Interpreters are made of models: functions that make graphs are errors.
  TfLiteStatus AddTensors(int, int* = nullptr) { return RefuseToBuild("AddTensors"); }
  TfLiteStatus SetInputs(std::vector<int>) { return RefuseToBuild("SetInputs"); }
  TfLiteStatus SetOutputs(std::vector<int>) { return RefuseToBuild("SetOutputs"); }
  TfLiteStatus SetVariables(std::vector<int>) { return RefuseToBuild("SetVariables"); }
  template <typename Quantization>
  TfLiteStatus SetTensorParametersReadOnly(
      int, TfLiteType, const char*, const std::vector<int>&, Quantization, const char*, size_t, const void* = nullptr) {
    return RefuseToBuild("SetTensorParametersReadOnly");
  }
  template <typename Quantization>
  TfLiteStatus SetTensorParametersReadWrite(
      int, TfLiteType, const char*, const std::vector<int>&, Quantization, bool = false,
      const std::vector<int>* = nullptr) {
    return RefuseToBuild("SetTensorParametersReadWrite");
  }
  // Frees the options of the node, which it takes over.
  TfLiteStatus AddNodeWithParameters(
      const std::vector<int>&, const std::vector<int>&, const char*, size_t, void* builtin_data,
      const TfLiteRegistration*, int* = nullptr) {
    std::free(builtin_data);
    return RefuseToBuild("AddNodeWithParameters");
  }

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
    return Find(signature_inputs(key), input_name, key);
  }
  const TfLiteTensor* output_tensor_by_signature(const char* output_name, const char* key) const {
    return Find(signature_outputs(key), output_name, key);
  }

  TfLiteInterpreter* c_interpreter() { return interpreter_; }

 private:
  using Names = std::map<std::string, uint32_t>;

  static int At(const std::vector<int>& list, size_t index) { return index < list.size() ? list[index] : -1; }

  Subgraph* At(int index) const {
    if (index < 0 || static_cast<size_t>(index) >= subgraphs_.size()) return nullptr;
    std::unique_ptr<Subgraph>& subgraph = subgraphs_[static_cast<size_t>(index)];
    if (!subgraph) subgraph.reset(new Subgraph(interpreter_, index, NameOf(static_cast<uint32_t>(index)), operators_));
    return subgraph.get();
  }
  Subgraph& primary() const { return *At(0); }
  std::string NameOf(uint32_t index) const {
    const bool is_known = tables_ && tables_->subgraphs() && index < tables_->subgraphs()->size();
    const auto* name = is_known ? tables_->subgraphs()->Get(index)->name() : nullptr;
    return name ? name->str() : std::string();
  }
  TfLiteTensor* Find(const Names& names, const char* name, const char* key) const {
    const auto found = names.find(name);
    return found == names.end() ? nullptr : At(GetSubgraphIndexFromSignature(key))->tensor(static_cast<int>(found->second));
  }

  TfLiteStatus RefuseToBuild(const char* function) {
    error_reporter_->Report("%s: interpreters are made of models, by InterpreterBuilder.", function);
    return kTfLiteError;
  }

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

  // Delegates of the program's, and the bytes of the model, are destroyed after the interpreter.
  std::vector<std::shared_ptr<TfLiteDelegate>> delegates_;
  std::shared_ptr<const void> model_;
  // Null if they are not known.
  const Model* tables_ = nullptr;
  std::shared_ptr<const internal::Operators> operators_;
  TfLiteInterpreter* interpreter_;
  ErrorReporter* error_reporter_;
  bool allows_fp16_ = false;
  internal::Profilers profilers_;
  std::vector<std::unique_ptr<Profiler>> own_profilers_;
  // Made when they are first asked for.
  mutable std::vector<std::unique_ptr<Subgraph>> subgraphs_;
  mutable std::map<std::string, Names> signature_inputs_;
  mutable std::map<std::string, Names> signature_outputs_;
  std::vector<const std::string*> signature_keys_;
  std::map<std::string, std::unique_ptr<SignatureRunner>> runners_;
};

}  // namespace tflite

#endif
