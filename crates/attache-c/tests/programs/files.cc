// Models in C++: where their bytes are, what is in them, and checks of the program's.
//
// Arguments: a model of the custom operator "Double" with metadata, and one of two operators.

#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "tensorflow/lite/allocation.h"
#include "tensorflow/lite/core/api/verifier.h"
#include "tensorflow/lite/kernels/register.h"
#include "tensorflow/lite/model.h"

using tflite::FlatBufferModel;

class Counter : public tflite::ErrorReporter {
 public:
  int Report(const char*, va_list) override { return ++count; }
  int count = 0;
};

class Verifier : public tflite::TfLiteVerifier {
 public:
  explicit Verifier(bool accepts) : accepts_(accepts) {}
  bool Verify(const char* data, int length, tflite::ErrorReporter* reporter) override {
    bytes.assign(data, static_cast<size_t>(length));
    if (!accepts_) reporter->Report("refused");
    return accepts_;
  }
  std::string bytes;

 private:
  bool accepts_;
};

static std::string Read(const char* path) {
  std::FILE* file = std::fopen(path, "rb");
  std::string bytes(1 << 16, '\0');
  bytes.resize(std::fread(&bytes[0], 1, bytes.size(), file));
  std::fclose(file);
  return bytes;
}

static void Verifies(const char* path) {
  const std::string bytes = Read(path);
  Counter counter;
  Verifier accepts(true), refuses(false);
  CHECK(FlatBufferModel::VerifyAndBuildFromFile(path, nullptr, &counter) && counter.count == 0);
  CHECK(FlatBufferModel::VerifyAndBuildFromFile(path, &accepts, &counter) && accepts.bytes == bytes);
  CHECK(!FlatBufferModel::VerifyAndBuildFromFile(path, &refuses, &counter) && counter.count == 1);
  CHECK(!FlatBufferModel::VerifyAndBuildFromBuffer(bytes.data(), bytes.size(), &refuses, &counter));
  CHECK(counter.count == 2 && refuses.bytes == bytes);
  // What is no model does not reach the program's verifier.
  accepts.bytes.clear();
  CHECK(!FlatBufferModel::VerifyAndBuildFromBuffer("not a model", 11, &accepts, &counter));
  CHECK(accepts.bytes.empty() && counter.count == 3);
}

// Runs exp and negation.
static void Run(tflite::InterpreterBuilder& builder, bool deletes, std::unique_ptr<FlatBufferModel>* model) {
  std::unique_ptr<tflite::Interpreter> interpreter;
  CHECK(builder(&interpreter) == kTfLiteOk);
  if (deletes) model->reset();
  CHECK(interpreter->AllocateTensors() == kTfLiteOk && interpreter->Invoke() == kTfLiteOk);
  CHECK(interpreter->typed_output_tensor<float>(0)[0] == -1.0f);
}

static void Allocations(const char* path) {
  Counter counter;
  const std::string bytes = Read(path);
  tflite::ops::builtin::BuiltinOpResolver resolver;
  using Made = std::unique_ptr<tflite::Allocation>;
  std::vector<Made> all;
  all.push_back(Made(new tflite::MMAPAllocation(path, &counter)));
  all.push_back(Made(new tflite::FileCopyAllocation(path, &counter)));
  all.push_back(Made(new tflite::MemoryAllocation(bytes.data(), bytes.size(), &counter)));
  for (Made& allocation : all) {
    CHECK(allocation->valid() && allocation->bytes() == bytes.size());
    CHECK(std::memcmp(allocation->base(), bytes.data(), bytes.size()) == 0);
    const tflite::Allocation* raw = allocation.get();
    std::unique_ptr<FlatBufferModel> model = FlatBufferModel::BuildFromAllocation(std::move(allocation), &counter);
    CHECK(model && model->allocation() == raw && model->initialized() && model->error_reporter() == &counter);
    // The interpreter keeps the bytes.
    tflite::InterpreterBuilder builder(*model, resolver);
    Run(builder, true, &model);
  }
  // A part of a file.
  const tflite::MMAPAllocation part(path, 5, 7, &counter);
  CHECK(part.valid() && part.bytes() == 7 && part.offset() == 5 && std::memcmp(part.base(), &bytes[5], 7) == 0);
  CHECK(counter.count == 0);
  CHECK(!tflite::MMAPAllocation(path, 0, bytes.size() + 1, &counter).valid() && counter.count == 1);
  CHECK(!tflite::MMAPAllocation("/no/such/file", &counter).valid() && counter.count == 2);
  CHECK(!tflite::FileCopyAllocation("/no/such/file", &counter).valid() && counter.count == 3);
  CHECK(!FlatBufferModel::BuildFromAllocation(nullptr, &counter) && counter.count == 4);
  Made missing(new tflite::FileCopyAllocation("/no/such/file", &counter));
  CHECK(!FlatBufferModel::VerifyAndBuildFromAllocation(std::move(missing), nullptr, &counter) && counter.count == 6);
}

// A file is mapped once, and its tables are those of the bytes that run.
static void MapsOnce(const char* path) {
  auto model = FlatBufferModel::BuildFromFile(path);
  CHECK(model->allocation()->type() == tflite::Allocation::Type::kMMap);
  CHECK(static_cast<const tflite::MMAPAllocation*>(model->allocation())->fd() >= 0);
  std::FILE* maps = std::fopen("/proc/self/maps", "r");
  if (!maps) return;
  int count = 0;
  char line[4096];
  while (std::fgets(line, sizeof(line), maps)) count += std::strstr(line, path) != nullptr;
  std::fclose(maps);
  CHECK(count == 1);
}

static void Contents(const char* custom, const char* two) {
  auto model = FlatBufferModel::BuildFromFile(custom);
  CHECK(model->GetMinimumRuntime() == "1.10.0" && model->CheckModelIdentifier());
  const auto metadata = model->ReadAllMetadata();
  CHECK(metadata.size() == 2 && metadata.at("note") == std::string("\1\2"));
  CHECK(metadata == FlatBufferModel::ReadAllMetadata(model->GetModel()));
  CHECK(!FlatBufferModel::CheckBufferOutsideModel(model->GetModel()));
  CHECK((*model)->version() == 3 && (*model)->description()->str() == "test");
  const tflite::OperatorCode* code = (*model)->operator_codes()->Get(0);
  CHECK(tflite::GetBuiltinCode(code) == tflite::BuiltinOperator_CUSTOM && code->custom_code()->str() == "Double");

  auto other = FlatBufferModel::BuildFromFile(two);
  CHECK(other->GetMinimumRuntime().empty() && other->ReadAllMetadata().empty());
  const tflite::SubGraph* subgraph = other->GetModel()->subgraphs()->Get(0);
  CHECK(subgraph->name()->str() == "main" && subgraph->inputs()->size() == 1 && subgraph->inputs()->Get(0) == 0);
  std::string names;
  for (const tflite::Tensor* tensor : *subgraph->tensors()) {
    CHECK(tensor->type() == tflite::TensorType_FLOAT32 && tensor->shape()->Get(0) == 4);
    names += tensor->name()->c_str();
  }
  CHECK(names == "xbetweeny" && tflite::GetModel(other->allocation()->base()) == other->GetModel());
  std::vector<tflite::BuiltinOperator> operators;
  for (const tflite::Operator* node : *subgraph->operators()) {
    operators.push_back(tflite::GetBuiltinCode((*other)->operator_codes()->Get(node->opcode_index())));
  }
  CHECK(operators.size() == 2 && operators[0] == tflite::BuiltinOperator_EXP);
}

static void OfModels(const char* path) {
  Counter counter;
  tflite::ops::builtin::BuiltinOpResolver resolver;
  auto model = FlatBufferModel::BuildFromFile(path, &counter);
  const tflite::Model* tables = model->GetModel();
  auto again = FlatBufferModel::BuildFromModel(tables, &counter);
  CHECK(again && again->GetModel() == tables);
  tflite::InterpreterBuilder builder(tables, resolver, &counter);
  Run(builder, false, nullptr);
  CHECK(counter.count == 0);
  // Its size is not known.
  const std::string bytes = Read(path);
  CHECK(!FlatBufferModel::BuildFromModel(tflite::GetModel(bytes.data()), &counter) && counter.count == 1);
  std::unique_ptr<tflite::Interpreter> interpreter(new tflite::Interpreter(&counter));
  CHECK(interpreter->inputs().empty() && interpreter->tensors_size() == 0 && interpreter->nodes_size() == 0);
  CHECK(!interpreter->tensor(0) && interpreter->AllocateTensors() == kTfLiteError);
  CHECK(interpreter->AddTensors(1) == kTfLiteError && counter.count == 2);
  CHECK(interpreter->Invoke() == kTfLiteError && counter.count == 3);
  CHECK(tflite::InterpreterBuilder(nullptr, resolver, &counter)(&interpreter) == kTfLiteError);
  CHECK(!interpreter && counter.count == 4);
  CHECK(tflite::InterpreterBuilder(*model, resolver)(nullptr) == kTfLiteError && counter.count == 5);
}

int main(int argc, char** argv) {
  CHECK(argc == 3);
  Verifies(argv[2]);
  Allocations(argv[2]);
  MapsOnce(argv[2]);
  Contents(argv[1], argv[2]);
  OfModels(argv[2]);
  return 0;
}
