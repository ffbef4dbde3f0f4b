// Classes of the program's that find operators.
//
// Arguments: a model of the custom operator "Double", and one of the operators EXP and NEG.

#include <cstdarg>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "tensorflow/lite/core/api/op_resolver.h"
#include "tensorflow/lite/kernels/builtin_op_kernels.h"
#include "tensorflow/lite/kernels/internal/tensor_ctypes.h"
#include "tensorflow/lite/kernels/register.h"
#include "tensorflow/lite/model.h"

using tflite::BuiltinOperator;
using tflite::Interpreter;

static float factor = 0.0f;
static TfLiteStatus Scale(TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor* input = &context->tensors[node->inputs->data[0]];
  TfLiteTensor* output = &context->tensors[node->outputs->data[0]];
  const float* from = tflite::GetTensorData<float>(input);
  float* to = tflite::GetTensorData<float>(output);
  for (size_t i = 0; i < output->bytes / sizeof(float); ++i) to[i] = factor * from[i];
  return kTfLiteOk;
}

// Finds what it was told to, and asks another resolver for the rest.
class Own : public tflite::OpResolver {
 public:
  const TfLiteRegistration* FindOp(BuiltinOperator op, int version) const override {
    asked.insert(tflite::EnumNameBuiltinOperator(op));
    if (op == replaced) return &registration;
    return op == refused ? nullptr : others.FindOp(op, version);
  }
  const TfLiteRegistration* FindOp(const char* name, int version) const override {
    asked.insert(name);
    return std::strcmp(name, "Double") == 0 && has_custom && version == 1 ? &registration : nullptr;
  }
  TfLiteDelegateCreators GetDelegateCreators() const override { return creators; }

  mutable std::set<std::string> asked;
  BuiltinOperator replaced = tflite::BuiltinOperator_CUSTOM;
  BuiltinOperator refused = tflite::BuiltinOperator_CUSTOM;
  bool has_custom = true;
  TfLiteRegistration registration{};
  TfLiteDelegateCreators creators;

 private:
  tflite::ops::builtin::BuiltinOpResolver others;
};

class Texts : public tflite::ErrorReporter {
 public:
  int Report(const char* format, va_list args) override {
    char line[1024];
    const int length = std::vsnprintf(line, sizeof(line), format, args);
    text += line;
    return length;
  }
  std::string text;
};

static float Run(Interpreter& interpreter, float input) {
  CHECK(interpreter.AllocateTensors() == kTfLiteOk);
  interpreter.typed_input_tensor<float>(0)[0] = input;
  CHECK(interpreter.Invoke() == kTfLiteOk);
  return interpreter.typed_output_tensor<float>(0)[0];
}

static void Customs(const char* path) {
  Texts texts;
  auto model = tflite::FlatBufferModel::BuildFromFile(path, &texts);
  std::unique_ptr<Interpreter> interpreter;
  {
    Own resolver;
    resolver.registration.invoke = Scale;
    CHECK(tflite::InterpreterBuilder(*model, resolver)(&interpreter) == kTfLiteOk);
    CHECK(resolver.asked == std::set<std::string>{"Double"});
  }
  // The resolver is gone, and a delegate has the interpreter prepared again.
  factor = 2.0f;
  CHECK(Run(*interpreter, 3.0f) == 6.0f);
  const auto* node = interpreter->node_and_registration(0);
  CHECK(node->second.invoke == Scale && std::strcmp(node->second.custom_name, "Double") == 0);
  TfLiteDelegate none = TfLiteDelegateCreate();
  none.Prepare = [](TfLiteContext*, TfLiteDelegate*) { return kTfLiteOk; };
  CHECK(interpreter->ModifyGraphWithDelegate(&none) == kTfLiteOk && Run(*interpreter, 4.0f) == 8.0f);

  // A custom operator that is not found may be one of a delegate's: allocation fails.
  Own refuses;
  refuses.has_custom = false;
  CHECK(tflite::InterpreterBuilder(*model, refuses)(&interpreter) == kTfLiteOk);
  CHECK(texts.text.empty() && interpreter->AllocateTensors() == kTfLiteUnresolvedOps);
  CHECK(texts.text.find("Encountered unresolved custom op: Double.") != std::string::npos);
}

static void Builtins(const char* path) {
  Texts texts;
  auto model = tflite::FlatBufferModel::BuildFromFile(path, &texts);
  Own resolver;
  std::unique_ptr<Interpreter> interpreter;
  CHECK(tflite::InterpreterBuilder(*model, resolver)(&interpreter) == kTfLiteOk);
  CHECK((resolver.asked == std::set<std::string>{"EXP", "NEG"}) && Run(*interpreter, 0.0f) == -1.0f);

  // Each interpreter gets what the resolver finds when it is made.
  tflite::InterpreterBuilder builder(*model, resolver);
  resolver.registration.invoke = Scale;
  resolver.replaced = tflite::BuiltinOperator_NEG;
  factor = 10.0f;
  CHECK(builder(&interpreter) == kTfLiteOk && Run(*interpreter, 0.0f) == 10.0f);
  CHECK(interpreter->node_and_registration(1)->second.invoke == Scale);
  CHECK(!interpreter->node_and_registration(0)->second.invoke);
  resolver.replaced = tflite::BuiltinOperator_CUSTOM;
  CHECK(builder(&interpreter) == kTfLiteOk && Run(*interpreter, 0.0f) == -1.0f);

  CHECK(texts.text.empty());
  resolver.refused = tflite::BuiltinOperator_NEG;
  CHECK(builder(&interpreter) == kTfLiteError && !interpreter);
  CHECK(texts.text.find("Didn't find op for builtin opcode 'NEG' version '1'.") != std::string::npos);
}

// A list of the operators that a program needs.
static void Selected(const char* path) {
  Texts texts;
  auto model = tflite::FlatBufferModel::BuildFromFile(path, &texts);
  tflite::MutableOpResolver resolver;
  std::unique_ptr<Interpreter> interpreter;
  CHECK(tflite::InterpreterBuilder(*model, resolver)(&interpreter) == kTfLiteError && !interpreter);
  CHECK(texts.text.find("'EXP'") != std::string::npos && texts.text.find("'NEG'") != std::string::npos);
  resolver.AddBuiltin(tflite::BuiltinOperator_EXP, tflite::ops::builtin::Register_EXP());
  resolver.AddBuiltin(tflite::BuiltinOperator_NEG, tflite::ops::builtin::Register_NEG(), 1, 3);
  CHECK(tflite::InterpreterBuilder(*model, resolver)(&interpreter) == kTfLiteOk && Run(*interpreter, 0.0f) == -1.0f);
  CHECK(resolver.FindOp(tflite::BuiltinOperator_NEG, 3)->version == 3);
  // Outside of a model, an operator of the library is an error.
  CHECK(resolver.FindOp(tflite::BuiltinOperator_NEG, 1)->invoke(nullptr, nullptr) == kTfLiteError);
}

// Asks other resolvers for what it lacks.
class Chained : public tflite::MutableOpResolver {
 public:
  explicit Chained(const tflite::OpResolver* other) { ChainOpResolver(other); }
};

static void Chains() {
  TfLiteRegistration registration{};
  registration.invoke = Scale;
  tflite::ops::builtin::BuiltinOpResolver builtins;
  builtins.AddCustom("Theirs", &registration);
  Chained chained(&builtins);
  CHECK(chained.FindOp(tflite::BuiltinOperator_ADD, 1)->builtin_code == kTfLiteBuiltinAdd);
  CHECK(chained.FindOp("Theirs", 1)->invoke == Scale && !chained.FindOp("Mine", 1));
  chained.AddBuiltin(tflite::BuiltinOperator_ADD, &registration);
  chained.AddCustom("Mine", &registration);
  CHECK(chained.FindOp(tflite::BuiltinOperator_ADD, 1)->invoke == Scale && chained.FindOp("Mine", 1));
  CHECK(builtins.FindOp(tflite::BuiltinOperator_ADD, 1)->invoke != Scale);
  CHECK(builtins.FindOp(tflite::BuiltinOperator_CONV_2D, 1) && !builtins.FindOp(tflite::BuiltinOperator_CONV_2D, 99));
  CHECK(builtins.FindOp("TFLite_Detection_PostProcess", 1) && !builtins.FindOp(tflite::BuiltinOperator_CALL, 1));
}

static int made = 0, deleted = 0, threads = 0;

static void Delegates(const char* path) {
  auto model = tflite::FlatBufferModel::BuildFromFile(path);
  Own resolver;
  resolver.creators.push_back([](TfLiteContext* context) {
    TfLiteDelegate* delegate = new TfLiteDelegate(TfLiteDelegateCreate());
    delegate->Prepare = [](TfLiteContext*, TfLiteDelegate*) { return ++made, kTfLiteOk; };
    threads = context->recommended_num_threads;
    return std::unique_ptr<TfLiteDelegate, void (*)(TfLiteDelegate*)>(delegate, [](TfLiteDelegate* delegate) {
      ++deleted;
      delete delegate;
    });
  });
  std::unique_ptr<Interpreter> interpreter;
  CHECK(tflite::InterpreterBuilder(*model, resolver)(&interpreter, 3) == kTfLiteOk);
  CHECK(made >= 1 && threads == 3 && Run(*interpreter, 0.0f) == -1.0f && deleted == 0);
  interpreter.reset();
  CHECK(deleted == 1);
}

int main(int argc, char** argv) {
  CHECK(argc == 3);
  Customs(argv[1]);
  Builtins(argv[2]);
  Selected(argv[2]);
  Chains();
  Delegates(argv[2]);
  return 0;
}
