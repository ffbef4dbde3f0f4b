// Members of the classes for C++ that decide how an interpreter runs: shapes, cancellation, profilers and memory.
//
// Arguments: a model of two operators with the tensor 1 between them, one with the signatures "square" and "negate" of two
// subgraphs, and one whose first operator is a branch.

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "tensorflow/lite/core/api/profiler.h"
#include "tensorflow/lite/core/subgraph.h"
#include "tensorflow/lite/kernels/register.h"
#include "tensorflow/lite/model.h"

using tflite::Interpreter;

static std::unique_ptr<Interpreter> Make(const char* path) {
  auto model = tflite::FlatBufferModel::BuildFromFile(path);
  tflite::ops::builtin::BuiltinOpResolver resolver;
  std::unique_ptr<Interpreter> interpreter;
  CHECK(tflite::InterpreterBuilder(*model, resolver)(&interpreter) == kTfLiteOk);
  return interpreter;
}

static std::vector<int> Dims(const TfLiteTensor* tensor) {
  return std::vector<int>(tensor->dims->data, tensor->dims->data + tensor->dims->size);
}

// All tensors have the shapes that follow from those of the inputs.
static void Shapes(const char* path) {
  std::unique_ptr<Interpreter> interpreter = Make(path);
  const std::vector<std::vector<int>> all{{2, 3}, {}, {4}, {0, 2}, {5}};
  for (const std::vector<int>& dims : all) {
    CHECK(interpreter->ResizeInputTensor(0, dims) == kTfLiteOk && interpreter->AllocateTensors() == kTfLiteOk);
    size_t bytes = sizeof(float);
    for (int extent : dims) bytes *= static_cast<size_t>(extent);
    for (int i = 0; i < 3; ++i) {
      CHECK(Dims(interpreter->tensor(i)) == dims && interpreter->tensor(i)->bytes == bytes);
    }
    CHECK(interpreter->Invoke() == kTfLiteOk);
    CHECK(bytes == 0 || interpreter->typed_output_tensor<float>(0)[0] == -1.0f);
  }
}

struct Count {
  int asked = 0;
  int last = 0;
};

static bool IsEnough(void* data) {
  Count* count = static_cast<Count*>(data);
  return ++count->asked > count->last;
}

static void Cancellation(const char* path) {
  std::unique_ptr<Interpreter> interpreter = Make(path);
  Count count;
  interpreter->SetCancellationFunction(&count, IsEnough);
  CHECK(interpreter->AllocateTensors() == kTfLiteOk && count.asked == 0);
  CHECK(interpreter->Invoke() == kTfLiteError && count.asked == 1);
  // It is still asked where a delegate had the interpreter prepared again.
  TfLiteDelegate none = TfLiteDelegateCreate();
  none.Prepare = [](TfLiteContext*, TfLiteDelegate*) { return kTfLiteOk; };
  CHECK(interpreter->ModifyGraphWithDelegate(&none) == kTfLiteOk && interpreter->Invoke() == kTfLiteError);
  count = {0, 1000};
  CHECK(interpreter->Invoke() == kTfLiteOk);
  const int steps = count.asked;
  CHECK(steps >= 1 && static_cast<size_t>(steps) <= interpreter->nodes_size());
  // A run is not ended any more when it is complete.
  count = {0, steps};
  CHECK(interpreter->Invoke() == kTfLiteOk && count.asked == steps);
  count = {0, 0};
  CHECK(interpreter->subgraph(0)->Invoke() == kTfLiteError && count.asked == 1);
  if (tflite::SignatureRunner* runner = interpreter->GetSignatureRunner(nullptr)) {
    count = {0, 0};
    CHECK(runner->AllocateTensors() == kTfLiteOk && runner->Invoke() == kTfLiteError && count.asked == 1);
  }
  count = {0, 1000};
  CHECK(interpreter->Invoke() == kTfLiteOk);
  CHECK(interpreter->typed_output_tensor<float>(0)[0] == -1.0f);
  count.last = 0;
  interpreter->SetCancellationFunction(nullptr, nullptr);
  const int asked = count.asked;
  CHECK(interpreter->Invoke() == kTfLiteOk && count.asked == asked);
}

// Writes down what it is told: operators with their index, and subgraphs other than the first with theirs.
class Recorder : public tflite::Profiler {
 public:
  using tflite::Profiler::BeginEvent;
  uint32_t BeginEvent(const char* tag, EventType type, int64_t first, int64_t second) override {
    const bool is_operator = type == EventType::OPERATOR_INVOKE_EVENT;
    CHECK(is_operator || type == (std::strcmp(tag, "invoke") ? EventType::DEFAULT
                                                             : EventType::GENERAL_RUNTIME_INSTRUMENTATION_EVENT));
    text += std::string("<") + tag;
    if (is_operator) text += std::to_string(first);
    if (second) text += "@" + std::to_string(second);
    open.push_back(++last);
    return last;
  }
  void EndEvent(uint32_t handle) override {
    CHECK(!open.empty() && handle == open.back());
    open.pop_back();
    text += ">";
  }
  // Returns what was told since the last call.
  std::string Take() {
    CHECK(open.empty());
    return std::exchange(text, std::string());
  }
  std::string text;
  std::vector<uint32_t> open;
  uint32_t last = 0;
};

// A delegate that takes the negation, whose kernel copies.
static TfLiteStatus TakeNegation(TfLiteContext* context, TfLiteDelegate* delegate) {
  TfLiteRegistration kernel{};
  kernel.custom_name = "Copier";
  kernel.version = 1;
  kernel.invoke = [](TfLiteContext* context, TfLiteNode* node) {
    const TfLiteTensor* input = &context->tensors[node->inputs->data[0]];
    TfLiteTensor* output = &context->tensors[node->outputs->data[0]];
    std::memcpy(output->data.data, input->data.data, output->bytes);
    return kTfLiteOk;
  };
  TfLiteIntArray* nodes = TfLiteIntArrayCreate(1);
  nodes->data[0] = 1;
  const TfLiteStatus status = context->ReplaceNodeSubsetsWithDelegateKernels(context, kernel, nodes, delegate);
  TfLiteIntArrayFree(nodes);
  return status;
}

static void Profilers(const char* path, const char* signatures, const char* calls) {
  Recorder first, second;
  std::unique_ptr<Interpreter> interpreter = Make(path);
  CHECK(!interpreter->GetProfiler());
  interpreter->SetProfiler(&first);
  CHECK(interpreter->GetProfiler() && interpreter->AllocateTensors() == kTfLiteOk);
  // Tensors are allocated already.
  CHECK(interpreter->AllocateTensors() == kTfLiteOk && first.Take() == "<AllocateTensors>");
  interpreter->AddProfiler(&second);
  CHECK(interpreter->Invoke() == kTfLiteOk);
  CHECK(first.Take() == "<invoke<Invoke<EXP0><NEG1>>>" && second.Take() == "<invoke<Invoke<EXP0><NEG1>>>");
  CHECK(interpreter->subgraph(0)->Invoke() == kTfLiteOk && second.Take() == "<Invoke<EXP0><NEG1>>");
  // Runs that end early end their events.
  interpreter->SetCancellationFunction(nullptr, [](void*) { return true; });
  CHECK(interpreter->Invoke() == kTfLiteError && second.Take() == "<invoke<Invoke<EXP0>>>");
  interpreter->SetCancellationFunction(nullptr, nullptr);

  TfLiteDelegate delegate = TfLiteDelegateCreate();
  delegate.Prepare = TakeNegation;
  CHECK(interpreter->ModifyGraphWithDelegate(&delegate) == kTfLiteOk);
  CHECK(second.Take().find("<ModifyGraphWithDelegate") == 0);
  CHECK(interpreter->execution_plan() == std::vector<int>({0, 2}) && interpreter->Invoke() == kTfLiteOk);
  CHECK(second.Take() == "<invoke<Invoke<EXP0><Copier2>>>");
  const auto* node = interpreter->node_and_registration(2);
  CHECK(node->first.delegate == &delegate && node->second.custom_name == std::string("Copier"));

  interpreter->SetProfiler(std::unique_ptr<tflite::Profiler>(new Recorder));
  first.Take();
  CHECK(interpreter->Invoke() == kTfLiteOk && first.Take().empty() && second.Take().empty());
  interpreter->SetProfiler(static_cast<tflite::Profiler*>(nullptr));
  CHECK(!interpreter->GetProfiler() && interpreter->Invoke() == kTfLiteOk);

  std::unique_ptr<Interpreter> other = Make(signatures);
  other->SetProfiler(&first);
  tflite::SignatureRunner* runner = other->GetSignatureRunner("negate");
  CHECK(runner->AllocateTensors() == kTfLiteOk && first.Take() == "<AllocateTensors@1>");
  CHECK(runner->Invoke() == kTfLiteOk && first.Take() == "<Invoke@1<NEG0@1>>");

  // Subgraphs that operators run are told about within these.
  std::unique_ptr<Interpreter> caller = Make(calls);
  CHECK(caller->AllocateTensors() == kTfLiteOk);
  caller->SetProfiler(&first);
  CHECK(caller->Invoke() == kTfLiteOk);
  CHECK(first.Take().find("<invoke<Invoke<IF0<Invoke@") == 0);
}

// A delegate that looks at what a branch runs.
static TfLiteStatus LookAround(TfLiteContext* context, TfLiteDelegate* delegate) {
  bool* is_prepared = static_cast<bool*>(delegate->data_);
  // The others are prepared afterwards.
  if (*is_prepared) return kTfLiteOk;
  TfLiteContext *own = nullptr, *other = nullptr, *again = nullptr;
  CHECK(context->AcquireSubgraphContext(context, 0, &own) == kTfLiteOk && own == context);
  for (int subgraph = 1; subgraph <= 2; ++subgraph) {
    CHECK(context->AcquireSubgraphContext(context, subgraph, &other) == kTfLiteOk && other && other != context);
    CHECK(context->AcquireSubgraphContext(context, subgraph, &again) == kTfLiteOk && again == other);
    TfLiteIntArray* plan = nullptr;
    CHECK(other->GetExecutionPlan(other, &plan) == kTfLiteOk && plan->size > 0 && other->tensors_size > 0);
    TfLiteNode* node = nullptr;
    TfLiteRegistration* registration = nullptr;
    CHECK(other->GetNodeAndRegistration(other, plan->data[0], &node, &registration) == kTfLiteOk);
    CHECK(registration->builtin_code != kTfLiteBuiltinIf && node->outputs->size == 1);
    CHECK(other->tensors[node->outputs->data[0]].type == kTfLiteFloat32);
    // Nothing is replaced there.
    CHECK(other->ReplaceNodeSubsetsWithDelegateKernels(other, *registration, plan, delegate) == kTfLiteError);
    CHECK(context->ReleaseSubgraphContext(context, subgraph) == kTfLiteOk);
  }
  CHECK(context->AcquireSubgraphContext(context, 3, &other) == kTfLiteError && !other);
  CHECK(context->ReleaseSubgraphContext(context, 3) == kTfLiteError);
  *is_prepared = true;
  return kTfLiteOk;
}

static void Contexts(const char* path) {
  bool is_prepared = false;
  TfLiteDelegate delegate = TfLiteDelegateCreate();
  delegate.data_ = &is_prepared;
  delegate.Prepare = LookAround;
  std::unique_ptr<Interpreter> interpreter = Make(path);
  CHECK(interpreter->ModifyGraphWithDelegate(&delegate) == kTfLiteOk && is_prepared);
  CHECK(interpreter->AllocateTensors() == kTfLiteOk && interpreter->Invoke() == kTfLiteOk);
}

static void Memory(const char* path) {
  std::unique_ptr<Interpreter> interpreter = Make(path);
  alignas(64) static float own[16];
  CHECK(interpreter->SetCustomAllocationForTensor(interpreter->outputs()[0], {own, sizeof(own)}) == kTfLiteOk);
  for (int i = 0; i < 2; ++i) {
    CHECK(interpreter->AllocateTensors() == kTfLiteOk && interpreter->typed_input_tensor<float>(0));
    for (int k = 0; k < 4; ++k) interpreter->typed_input_tensor<float>(0)[k] = 0.0f;
    own[3] = 0.0f;
    CHECK(interpreter->Invoke() == kTfLiteOk && own[3] == -1.0f);
    CHECK(interpreter->ReleaseNonPersistentMemory() == kTfLiteOk);
    CHECK(!interpreter->tensor(0)->data.data && interpreter->Invoke() == kTfLiteError);
  }
}

static void Subgraphs(const char* path) {
  std::unique_ptr<Interpreter> interpreter = Make(path);
  tflite::Subgraph* other = interpreter->subgraph(1);
  CHECK(other->GetName() == "negate" && !other->IsPrimarySubgraph() && other->tensors() == other->tensor(0));
  CHECK(interpreter->primary_subgraph().IsPrimarySubgraph() && interpreter->subgraph(0)->GetName() == "square");
  CHECK(other->Invoke() == kTfLiteError && other->ResizeInputTensor(0, {2}) == kTfLiteOk);
  CHECK(other->ResizeInputTensorStrict(0, {2, 2}) == kTfLiteError);
  CHECK(other->AllocateTensors() == kTfLiteOk && !other->HasDynamicTensors() && other->tensor(1)->bytes == 8);
  other->tensor(0)->data.f[1] = 3.0f;
  CHECK(other->Invoke() == kTfLiteOk && other->tensor(1)->data.f[1] == -3.0f);
  CHECK(interpreter->output_tensor_by_signature("out", "negate") == other->tensor(1));
  CHECK(!interpreter->output_tensor_by_signature("none", "negate"));
  const auto* node = interpreter->node_and_registration(1, 0);
  CHECK(node && node->second.builtin_code == kTfLiteBuiltinNeg && !interpreter->node_and_registration(2, 0));
  CHECK(other->nodes_and_registration().size() == 1 && !other->HasDelegates() && !other->IsFullyDelegated());

  tflite::Subgraph& main = interpreter->primary_subgraph();
  CHECK(main.AllocateTensors() == kTfLiteOk);
  main.tensor(0)->data.f[0] = 3.0f;
  CHECK(main.Invoke() == kTfLiteOk && main.tensor(1)->data.f[0] == 9.0f);
  tflite::InterpreterOptions options;
  CHECK(interpreter->ApplyOptions(&options) == kTfLiteOk);
  options.SetPreserveAllTensors();
  CHECK(interpreter->ApplyOptions(&options) == kTfLiteError);
}

static int freed = 0;

static void Handles(const char* path) {
  TfLiteDelegate delegate = TfLiteDelegateCreate();
  delegate.FreeBufferHandle = [](TfLiteContext*, TfLiteDelegate*, TfLiteBufferHandle*) { ++freed; };
  {
    std::unique_ptr<Interpreter> interpreter = Make(path);
    tflite::SignatureRunner* runner = interpreter->GetSignatureRunner("negate");
    CHECK(runner->SetInputBufferHandle("in", 5, &delegate) == kTfLiteOk);
    CHECK(runner->input_tensor("in")->buffer_handle == 5 && freed == 0);
    CHECK(runner->SetInputBufferHandle("in", 6, &delegate, false) == kTfLiteError);
    CHECK(runner->SetInputBufferHandle("in", 6, &delegate) == kTfLiteOk && freed == 1);
    CHECK(runner->SetOutputBufferHandle("out", 7, &delegate) == kTfLiteOk);
    CHECK(runner->output_tensor("out")->buffer_handle == 7);
    CHECK(runner->SetOutputBufferHandle("none", 7, &delegate) == kTfLiteError);
  }
  CHECK(freed == 3);
}

int main(int argc, char** argv) {
  CHECK(argc == 4);
  Shapes(argv[1]);
  Cancellation(argv[1]);
  Profilers(argv[1], argv[2], argv[3]);
  Contexts(argv[3]);
  Memory(argv[1]);
  Subgraphs(argv[2]);
  Handles(argv[2]);
  return 0;
}
