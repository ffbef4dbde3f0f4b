// Members of the classes for C++ that show an interpreter, and strings, messages and libraries of delegates.
//
// Arguments: a model of two operators with the tensor 1 between them, one with the signatures "square" and "negate" of two
// subgraphs, and one with the signatures "sum" and "product" of one subgraph.

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "tensorflow/lite/core/subgraph.h"
#include "tensorflow/lite/create_op_resolver.h"
#include "tensorflow/lite/delegates/external/external_delegate.h"
#include "tensorflow/lite/kernels/kernel_util.h"
#include "tensorflow/lite/minimal_logging.h"
#include "tensorflow/lite/model.h"
#include "tensorflow/lite/optional_debug_tools.h"
#include "tensorflow/lite/string_util.h"

using tflite::Interpreter;

static std::unique_ptr<Interpreter> Make(const char* path) {
  auto model = tflite::FlatBufferModel::BuildFromFile(path);
  std::unique_ptr<tflite::MutableOpResolver> resolver = tflite::CreateOpResolver();
  std::unique_ptr<Interpreter> interpreter;
  CHECK(tflite::InterpreterBuilder(*model, *resolver)(&interpreter) == kTfLiteOk);
  return interpreter;
}

static TfLiteStatus Negate(TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor* input = &context->tensors[node->inputs->data[0]];
  TfLiteTensor* output = &context->tensors[node->outputs->data[0]];
  for (size_t i = 0; i < output->bytes / sizeof(float); ++i) output->data.f[i] = -input->data.f[i];
  return kTfLiteOk;
}

// Takes the last node.
static TfLiteStatus TakeLast(TfLiteContext* context, TfLiteDelegate* delegate) {
  TfLiteIntArray* plan = nullptr;
  if (context->GetExecutionPlan(context, &plan) != kTfLiteOk) return kTfLiteError;
  TfLiteIntArray* nodes = TfLiteIntArrayCreate(1);
  nodes->data[0] = plan->data[plan->size - 1];
  TfLiteRegistration kernel{};
  kernel.custom_name = "Negator";
  kernel.invoke = Negate;
  const TfLiteStatus status = context->ReplaceNodeSubsetsWithDelegateKernels(context, kernel, nodes, delegate);
  TfLiteIntArrayFree(nodes);
  return status;
}

static void Nodes(const char* path) {
  TfLiteDelegate delegate = TfLiteDelegateCreate();
  delegate.Prepare = TakeLast;
  std::unique_ptr<Interpreter> interpreter = Make(path);
  CHECK(interpreter->nodes_size() == 2 && interpreter->execution_plan() == std::vector<int>({0, 1}));
  const auto* first = interpreter->node_and_registration(0);
  CHECK(first && first->second.builtin_code == kTfLiteBuiltinExp && first->second.version == 1);
  CHECK(first->first.inputs->size == 1 && first->first.outputs->data[0] == 1);
  CHECK(!interpreter->node_and_registration(2) && !interpreter->node_and_registration(-1));
  tflite::PrintInterpreterState(interpreter.get());

  CHECK(interpreter->ModifyGraphWithDelegate(&delegate) == kTfLiteOk);
  CHECK(interpreter->nodes_size() == 3 && interpreter->execution_plan() == std::vector<int>({0, 2}));
  const auto* taken = interpreter->node_and_registration(2);
  CHECK(taken && taken->second.builtin_code == kTfLiteBuiltinDelegate);
  CHECK(taken->first.inputs->size == 1 && taken->first.inputs->data[0] == 1);
  CHECK(taken->first.outputs->size == 1 && taken->first.outputs->data[0] == interpreter->outputs()[0]);
  CHECK(interpreter->Invoke() == kTfLiteOk && interpreter->typed_output_tensor<float>(0)[0] == -1.0f);
}

static void Threads(const char* path) {
  std::unique_ptr<Interpreter> interpreter = Make(path);
  CHECK(interpreter->SetNumThreads(3) == kTfLiteOk);
  CHECK(interpreter->AllocateTensors() == kTfLiteOk && interpreter->Invoke() == kTfLiteOk);
  for (int threads : {2, 1, 0, -1}) {
    CHECK(interpreter->SetNumThreads(threads) == kTfLiteOk && interpreter->Invoke() == kTfLiteOk);
    CHECK(interpreter->typed_output_tensor<float>(0)[3] == -1.0f);
  }
  CHECK(interpreter->SetNumThreads(-2) == kTfLiteError);
  CHECK(interpreter->Cancel() == kTfLiteError && interpreter->EnableCancellation() == kTfLiteOk);
  CHECK(interpreter->Cancel() == kTfLiteOk && interpreter->Invoke() == kTfLiteOk);
  interpreter->SetAllowFp16PrecisionForFp32(true);
  CHECK(interpreter->GetAllowFp16PrecisionForFp32() && interpreter->error_reporter());
}

static void Subgraphs(const char* path) {
  std::unique_ptr<Interpreter> interpreter = Make(path);
  CHECK(interpreter->subgraphs_size() == 2 && !interpreter->subgraph(2) && !interpreter->subgraph(-1));
  CHECK(interpreter->subgraph(0) == &interpreter->primary_subgraph());
  tflite::Subgraph* other = interpreter->subgraph(1);
  CHECK(other->GetSubgraphIndex() == 1 && other->tensors_size() == 2 && other->nodes_size() == 1);
  CHECK(other->node_and_registration(0)->second.builtin_code == kTfLiteBuiltinNeg);
  CHECK(interpreter->GetSubgraphIndexFromSignature("negate") == 1);
  CHECK(interpreter->GetSubgraphIndexFromSignature("none") == -1);
  const auto& inputs = interpreter->signature_inputs("negate");
  CHECK(inputs.size() == 1 && inputs.at("in") == static_cast<uint32_t>(other->inputs()[0]));
  CHECK(interpreter->signature_outputs("negate").at("out") == static_cast<uint32_t>(other->outputs()[0]));
  CHECK(interpreter->signature_inputs("none").empty());

  tflite::SignatureRunner* runner = interpreter->GetSignatureRunner("negate");
  CHECK(runner->signature_key() == "negate" && runner->input_tensor("in") == other->tensor(other->inputs()[0]));
  CHECK(runner->ResizeInputTensor("in", {2}) == kTfLiteOk);
  CHECK(runner->ResizeInputTensorStrict("in", {2, 2}) == kTfLiteError);
  CHECK(runner->ResizeInputTensor("none", {2}) == kTfLiteError);
  alignas(64) static float memory[16] = {1.0f, 2.0f};
  CHECK(runner->SetCustomAllocationForInputTensor("in", {memory, sizeof(memory)}) == kTfLiteOk);
  CHECK(runner->AllocateTensors() == kTfLiteOk && runner->input_tensor("in")->data.f == memory);
  CHECK(runner->Invoke() == kTfLiteOk && runner->output_tensor("out")->bytes == 8);
  CHECK(runner->output_tensor("out")->data.f[1] == -2.0f);
}

// Signatures of one subgraph have its tensors in common, also those that only one of them names.
static void Subsets(const char* path) {
  std::unique_ptr<Interpreter> interpreter = Make(path);
  tflite::SignatureRunner* sum = interpreter->GetSignatureRunner("sum");
  tflite::SignatureRunner* product = interpreter->GetSignatureRunner("product");
  CHECK(sum->subgraph_input_names().size() == 1 && product->subgraph_input_names().size() == 2);
  CHECK(std::strcmp(product->subgraph_input_names()[0], "second") == 0);
  CHECK(std::strcmp(product->input_names()[0], "first") == 0);
  for (tflite::SignatureRunner* runner : {sum, product}) {
    CHECK(runner->AllocateTensors() == kTfLiteOk);
    sum->input_tensor("one")->data.f[0] = 3.0f;
    product->input_tensor("first")->data.f[0] = 4.0f;
    CHECK(product->input_tensor("second") == sum->input_tensor("one"));
    CHECK(runner->Invoke() == kTfLiteOk);
    CHECK(sum->output_tensor("sum")->data.f[0] == 7.0f);
    CHECK(product->output_tensor("product")->data.f[0] == 12.0f);
    sum->input_tensor("one")->data.f[0] = 0.0f;
  }
}

// A model without signatures has one without a key, with the names of its tensors.
static void Unnamed(const char* path) {
  std::unique_ptr<Interpreter> interpreter = Make(path);
  CHECK(interpreter->signature_keys().empty());
  tflite::SignatureRunner* runner = interpreter->GetSignatureRunner(nullptr);
  CHECK(runner && runner == interpreter->GetSignatureRunner(nullptr));
  CHECK(runner->subgraph_input_names().size() == 1 && std::strcmp(runner->input_names()[0], "x") == 0);
  CHECK(runner->AllocateTensors() == kTfLiteOk && runner->Invoke() == kTfLiteOk);
  CHECK(runner->output_tensor("y")->data.f[0] == -1.0f);
}

static void Strings() {
  tflite::DynamicBuffer buffer;
  CHECK(buffer.AddString("ab", 2) == kTfLiteOk && buffer.AddString({"", 0}) == kTfLiteOk);
  CHECK(buffer.AddJoinedString({{"x", 1}, {"yz", 2}}, ' ') == kTfLiteOk);
  char* bytes = nullptr;
  const int size = buffer.WriteToBuffer(&bytes);
  CHECK(size == 20 + 6 && tflite::GetStringCount(bytes) == 3);
  const tflite::StringRef last = tflite::GetString(bytes, 2);
  CHECK(std::string(last.str, last.len) == "x yz" && tflite::GetString(bytes, 1).len == 0);
  std::free(bytes);

  TfLiteTensor tensor{};
  tensor.type = kTfLiteString;
  tensor.allocation_type = kTfLiteDynamic;
  CHECK(buffer.WriteToTensorAsVector(&tensor) == kTfLiteOk);
  CHECK(tensor.dims->data[0] == 3 && tflite::GetStringCount(&tensor) == 3 && tensor.bytes == 26);
  CHECK(tflite::GetString(&tensor, 0).len == 2);
  TfLiteTensorFree(&tensor);
}

static void Operators() {
  TfLiteRegistration registration{};
  registration.invoke = Negate;
  tflite::MutableOpResolver one, all;
  one.AddCustom("Mine", &registration, 1, 2);
  one.AddBuiltin(kTfLiteBuiltinNeg, &registration);
  all.AddAll(one);
  CHECK(all.FindOp("Mine", 2) && all.FindOp("Mine", 2)->invoke == Negate && all.FindOp("Mine", 2)->version == 2);
  CHECK(!all.FindOp("Mine", 3) && !all.FindOp("Other", 1));
  all.AddBuiltin(tflite::BuiltinOperator_ABS, &registration, 2);
  CHECK(all.FindOp(tflite::BuiltinOperator_ABS, 2)->builtin_code == kTfLiteBuiltinAbs);
  CHECK(std::strcmp(tflite::EnumNameBuiltinOperator(tflite::BuiltinOperator_CONV_2D), "CONV_2D") == 0);
  CHECK(all.FindOp(kTfLiteBuiltinNeg, 1)->builtin_code == kTfLiteBuiltinNeg && !all.FindOp(kTfLiteBuiltinAbs, 1));
}

static TfLiteTensor Shaped(const std::vector<int>& lengths) {
  TfLiteTensor tensor{};
  tensor.dims = TfLiteIntArrayCreate(static_cast<int>(lengths.size()));
  for (size_t i = 0; i < lengths.size(); ++i) tensor.dims->data[i] = lengths[i];
  return tensor;
}

static int reports = 0;
static void CountReport(TfLiteContext*, const char*, ...) { ++reports; }

static void Shapes() {
  TfLiteContext context{};
  context.ReportError = CountReport;
  const std::vector<std::vector<int>> left{{2, 1, 3}, {4}, {}, {2, 0}, {2, 3}}, right{{5, 1}, {2, 4}, {7}, {1, 1}, {2}};
  const std::vector<std::vector<int>> together{{2, 5, 3}, {2, 4}, {7}, {2, 0}};
  for (size_t i = 0; i < left.size(); ++i) {
    TfLiteTensor a = Shaped(left[i]), b = Shaped(right[i]);
    TfLiteIntArray* shape = nullptr;
    const bool fits = i < together.size();
    CHECK(tflite::CalculateShapeForBroadcast(&context, &a, &b, &shape) == (fits ? kTfLiteOk : kTfLiteError));
    CHECK(fits == (shape != nullptr) && reports == (fits ? 0 : 1));
    if (fits) {
      CHECK(std::vector<int>(shape->data, shape->data + shape->size) == together[i]);
      TfLiteIntArrayFree(shape);
    }
    TfLiteIntArrayFree(a.dims);
    TfLiteIntArrayFree(b.dims);
  }
  const TfLiteAddParams none{};
  CHECK(none.activation == kTfLiteActNone);
}

static void Libraries() {
  TfLiteExternalDelegateOptions options = TfLiteExternalDelegateOptionsDefault("/no/such/library.so");
  CHECK(options.count == 0 && options.insert(&options, "key", "value") == kTfLiteOk && options.count == 1);
  while (options.count < kExternalDelegateMaxOptions) {
    CHECK(TfLiteExternalDelegateOptionsInsert(&options, "key", "value") == kTfLiteOk);
  }
  CHECK(TfLiteExternalDelegateOptionsInsert(&options, "key", "value") == kTfLiteError);
  CHECK(TfLiteExternalDelegateCreate(&options) == nullptr);
  CHECK(TfLiteExternalDelegateCreate(nullptr) == nullptr);
  TfLiteExternalDelegateDelete(nullptr);
}

static void Messages() {
  CHECK(tflite::LoggerOptions::SetMinimumLogSeverity(tflite::TFLITE_LOG_ERROR) == tflite::TFLITE_LOG_INFO);
  for (int i = 0; i < 2; ++i) TFLITE_LOG_PROD_ONCE(tflite::TFLITE_LOG_ERROR, "message %d", i);
  TFLITE_LOG(tflite::TFLITE_LOG_INFO, "not written");
  TFLITE_LOG_PROD(tflite::TFLITE_LOG_WARNING, "not written: %s", "below the minimum");
}

int main(int argc, char** argv) {
  CHECK(argc == 4);
  Nodes(argv[1]);
  Threads(argv[1]);
  Subgraphs(argv[2]);
  Subsets(argv[3]);
  Unnamed(argv[1]);
  Strings();
  Operators();
  Shapes();
  Libraries();
  Messages();
  return 0;
}
