// Makes interpreters, in C++.

#ifndef TENSORFLOW_LITE_INTERPRETER_BUILDER_H_
#define TENSORFLOW_LITE_INTERPRETER_BUILDER_H_

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "attache/attache.h"
#include "attache/operators.h"
#include "tensorflow/lite/interpreter.h"
#include "tensorflow/lite/interpreter_options.h"
#include "tensorflow/lite/model_builder.h"
#include "tensorflow/lite/mutable_op_resolver.h"

namespace tflite {

// Makes interpreters of a model. The model and the resolver may be destroyed after the builder.
class InterpreterBuilder {
 public:
  InterpreterBuilder(
      const FlatBufferModel& model, const OpResolver& op_resolver,
      const InterpreterOptions* options_experimental = nullptr)
      : InterpreterBuilder(model.opened(), op_resolver, model.error_reporter(), options_experimental) {}
  // The model is one that FlatBufferModel opened and that exists. Others are an error when an interpreter is made.
  InterpreterBuilder(
      const Model* model, const OpResolver& op_resolver, ErrorReporter* error_reporter = DefaultErrorReporter(),
      const InterpreterOptions* options_experimental = nullptr)
      : InterpreterBuilder(internal::OpenedModel::Find(model), op_resolver, error_reporter, options_experimental) {}
  ~InterpreterBuilder() { TfLiteInterpreterOptionsDelete(options_); }
  InterpreterBuilder(const InterpreterBuilder&) = delete;
  InterpreterBuilder& operator=(const InterpreterBuilder&) = delete;

  // Sets the interpreter to null if the model cannot be run, or if the resolver does not have a builtin operator of it.
  TfLiteStatus operator()(std::unique_ptr<Interpreter>* interpreter) {
    if (!interpreter) {
      error_reporter_->Report("Null where a place for an interpreter is expected.");
      return kTfLiteError;
    }
    interpreter->reset();
    if (!model_) {
      error_reporter_->Report("Null, or a model that FlatBufferModel did not open, where a model is expected.");
      return kTfLiteError;
    }
    TfLiteInterpreterOptions* options = TfLiteInterpreterOptionsCopy(options_);
    const auto operators = std::make_shared<internal::Operators>();
    const bool is_complete = Resolve(options, operators.get());
    TfLiteInterpreter* made = is_complete ? TfLiteInterpreterCreate(model_->model(), options) : nullptr;
    TfLiteInterpreterOptionsDelete(options);
    if (!made) return kTfLiteError;
    interpreter->reset(new Interpreter(made, error_reporter_, model_, model_->tables(), operators));
    const TfLiteStatus status = AddDelegatesOfResolver(interpreter->get());
    if (status != kTfLiteOk) interpreter->reset();
    return status;
  }
  TfLiteStatus operator()(std::unique_ptr<Interpreter>* interpreter, int num_threads) {
    if (SetNumThreads(num_threads) == kTfLiteOk) return (*this)(interpreter);
    if (interpreter) interpreter->reset();
    return kTfLiteError;
  }

  // -1 for the library's choice. An error for numbers below it.
  TfLiteStatus SetNumThreads(int num_threads) {
    if (num_threads < -1) {
      error_reporter_->Report(
          "num_threads should be >= 0 or just -1 to let the library choose the number; not %d.", num_threads);
      return kTfLiteError;
    }
    num_threads_ = num_threads;
    TfLiteInterpreterOptionsSetNumThreads(options_, num_threads);
    return kTfLiteOk;
  }
  // Lets intermediate tensors keep the values of the last run, for debugging.
  InterpreterBuilder& PreserveAllTensorsExperimental() {
    attache_interpreter_options_set_preserve_all_tensors(options_, true);
    return *this;
  }
  // The delegate stays valid as long as the interpreters. Null is reported, and changes nothing.
  void AddDelegate(TfLiteDelegate* delegate) {
    if (!delegate) {
      error_reporter_->Report("Null where a delegate is expected.");
      return;
    }
    TfLiteInterpreterOptionsAddDelegate(options_, reinterpret_cast<TfLiteOpaqueDelegate*>(delegate));
  }
  void AddDelegate(TfLiteOpaqueDelegateStruct* delegate) { AddDelegate(reinterpret_cast<TfLiteDelegate*>(delegate)); }

 private:
  InterpreterBuilder(
      std::shared_ptr<const internal::OpenedModel> model, const OpResolver& op_resolver, ErrorReporter* error_reporter,
      const InterpreterOptions* options)
      : model_(std::move(model)),
        op_resolver_(op_resolver),
        error_reporter_(error_reporter ? error_reporter : DefaultErrorReporter()),
        options_(TfLiteInterpreterOptionsCreate()) {
    TfLiteInterpreterOptionsSetErrorReporter(options_, internal::ReportTo, error_reporter_);
    if (options && options->GetPreserveAllTensors()) PreserveAllTensorsExperimental();
  }

  // Adds the operators of the resolver that the model uses. Returns false if it lacks a builtin one. Custom operators that
  // it lacks are an error when tensors are allocated, unless the library has them.
  bool Resolve(TfLiteInterpreterOptions* options, internal::Operators* operators) const {
    const Model* model = model_->tables();
    if (!model->subgraphs()) return true;
    bool is_complete = true;
    std::vector<bool> is_asked(model->operator_codes() ? model->operator_codes()->size() : 0);
    for (const SubGraph* subgraph : *model->subgraphs()) {
      if (!subgraph->operators()) continue;
      for (const Operator* node : *subgraph->operators()) {
        const uint32_t index = node->opcode_index();
        // The library checked the file, which may have been changed since.
        if (index >= is_asked.size()) return Damaged();
        if (is_asked[index]) continue;
        is_asked[index] = true;
        is_complete &= Resolve(*model->operator_codes()->Get(index), options, operators);
      }
    }
    return is_complete;
  }
  bool Damaged() const {
    error_reporter_->Report("The file of the model has changed since it was opened.");
    return false;
  }
  bool Resolve(
      const OperatorCode& code, TfLiteInterpreterOptions* options, internal::Operators* operators) const {
    const BuiltinOperator op = GetBuiltinCode(&code);
    const int version = code.version();
    if (op == BuiltinOperator_CUSTOM) {
      const char* name = code.custom_code() ? code.custom_code()->c_str() : "";
      const TfLiteRegistration* found = op_resolver_.FindOp(name, version);
      if (found && !internal::IsOfLibrary(*found)) {
        TfLiteInterpreterOptionsAddCustomOp(options, name, found, version, version);
        operators->emplace(std::make_tuple(static_cast<int>(op), std::string(name), version), *found);
      }
      return true;
    }
    const TfLiteRegistration* found = op_resolver_.FindOp(op, version);
    if (!found) {
      error_reporter_->Report(
          "Didn't find op for builtin opcode '%s' version '%d'. The resolver lacks it.", EnumNameBuiltinOperator(op),
          version);
    } else if (!internal::IsOfLibrary(*found)) {
      const auto builtin = static_cast<TfLiteBuiltinOperator>(op);
      TfLiteInterpreterOptionsAddBuiltinOp(options, builtin, found, version, version);
      operators->emplace(std::make_tuple(static_cast<int>(op), std::string(), version), *found);
    }
    return found != nullptr;
  }

  TfLiteStatus AddDelegatesOfResolver(Interpreter* interpreter) const {
    for (const auto& create : op_resolver_.GetDelegateCreators()) {
      TfLiteContext context{};
      context.recommended_num_threads = num_threads_;
      std::unique_ptr<TfLiteDelegate, void (*)(TfLiteDelegate*)> delegate = create(&context);
      if (!delegate) continue;
      const TfLiteStatus status = interpreter->ModifyGraphWithDelegate(std::move(delegate));
      // A delegate that does not fit the model is left out.
      if (status != kTfLiteOk && status != kTfLiteApplicationError) return status;
    }
    return kTfLiteOk;
  }

  std::shared_ptr<const internal::OpenedModel> model_;
  const OpResolver& op_resolver_;
  ErrorReporter* error_reporter_;
  TfLiteInterpreterOptions* options_;
  int num_threads_ = -1;
};

}  // namespace tflite

#endif
