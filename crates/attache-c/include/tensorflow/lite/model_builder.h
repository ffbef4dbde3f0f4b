// Models, in C++.

#ifndef TENSORFLOW_LITE_MODEL_BUILDER_H_
#define TENSORFLOW_LITE_MODEL_BUILDER_H_

#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "tensorflow/lite/allocation.h"
#include "tensorflow/lite/c/c_api.h"
#include "tensorflow/lite/core/api/op_resolver.h"
#include "tensorflow/lite/core/api/verifier.h"
#include "tensorflow/lite/error_reporter.h"
#include "tensorflow/lite/schema/schema_generated.h"

namespace tflite {
namespace internal {

// A model that was opened, and its bytes. The model and its interpreters share it. It is found by the model in the bytes.
class OpenedModel {
 public:
  OpenedModel(TfLiteModel* model, std::shared_ptr<const Allocation> allocation)
      : model_(model), allocation_(std::move(allocation)) {}
  ~OpenedModel() {
    {
      const std::lock_guard<std::mutex> lock(Known().mutex);
      auto range = Known().models.equal_range(tables());
      while (range.first != range.second) {
        range.first = range.first->second.expired() ? Known().models.erase(range.first) : std::next(range.first);
      }
    }
    TfLiteModelDelete(model_);
  }
  OpenedModel(const OpenedModel&) = delete;
  OpenedModel& operator=(const OpenedModel&) = delete;

  static std::shared_ptr<const OpenedModel> Of(TfLiteModel* model, std::shared_ptr<const Allocation> allocation) {
    auto opened = std::make_shared<const OpenedModel>(model, std::move(allocation));
    const std::lock_guard<std::mutex> lock(Known().mutex);
    Known().models.emplace(opened->tables(), opened);
    return opened;
  }
  // Null if no model was opened there.
  static std::shared_ptr<const OpenedModel> Find(const Model* tables) {
    const std::lock_guard<std::mutex> lock(Known().mutex);
    const auto range = Known().models.equal_range(tables);
    for (auto entry = range.first; entry != range.second; ++entry) {
      if (auto opened = entry->second.lock()) return opened;
    }
    return nullptr;
  }

  const TfLiteModel* model() const { return model_; }
  const Allocation* allocation() const { return allocation_.get(); }
  const Model* tables() const { return GetModel(allocation_->base()); }

 private:
  struct All {
    std::mutex mutex;
    std::multimap<const Model*, std::weak_ptr<const OpenedModel>> models;
  };
  static All& Known() {
    static All* known = new All();
    return *known;
  }

  TfLiteModel* model_;
  std::shared_ptr<const Allocation> allocation_;
};

}  // namespace internal

// The bytes of a file, mapped into memory where the system does that. Check whether they are valid.
inline std::unique_ptr<Allocation> GetAllocationFromFile(const char* filename, ErrorReporter* error_reporter) {
  if (MMAPAllocation::IsSupported()) {
    return std::unique_ptr<Allocation>(new MMAPAllocation(filename, error_reporter));
  }
  return std::unique_ptr<Allocation>(new FileCopyAllocation(filename, error_reporter));
}

// A model file that was opened and checked. Interpreters stay valid when it is destroyed. A null reporter stands for the
// default one.
class FlatBufferModel {
 public:
  // Returns null if the file cannot be read or is no valid model.
  static std::unique_ptr<FlatBufferModel> BuildFromFile(
      const char* filename, ErrorReporter* error_reporter = DefaultErrorReporter()) {
    std::unique_ptr<Allocation> allocation = GetAllocationFromFile(filename, internal::Nobody());
    if (allocation->valid()) {
      TfLiteModel* model = TfLiteModelCreateWithErrorReporter(
          allocation->base(), allocation->bytes(), internal::ReportTo, internal::Nobody());
      if (model) return Of(model, std::move(allocation), error_reporter);
    }
    // The library says what is wrong with the file.
    TfLiteModel* other = TfLiteModelCreateFromFileWithErrorReporter(filename, internal::ReportTo, error_reporter);
    if (other) {
      TfLiteModelDelete(other);
      (error_reporter ? error_reporter : DefaultErrorReporter())->Report("Could not open '%s'.", filename);
    }
    return nullptr;
  }

  // The bytes are not copied: they stay unchanged until the model and its interpreters are destroyed.
  static std::unique_ptr<FlatBufferModel> BuildFromBuffer(
      const char* buffer, size_t buffer_size, ErrorReporter* error_reporter = DefaultErrorReporter()) {
    return BuildFromAllocation(
        std::unique_ptr<Allocation>(new MemoryAllocation(buffer, buffer_size, error_reporter)), error_reporter);
  }

  // Takes the allocation over, which stays until the model and its interpreters are destroyed.
  static std::unique_ptr<FlatBufferModel> BuildFromAllocation(
      std::unique_ptr<Allocation> allocation, ErrorReporter* error_reporter = DefaultErrorReporter()) {
    if (!allocation || !allocation->valid()) {
      (error_reporter ? error_reporter : DefaultErrorReporter())->Report("The model allocation is null/empty");
      return nullptr;
    }
    TfLiteModel* model = TfLiteModelCreateWithErrorReporter(
        allocation->base(), allocation->bytes(), internal::ReportTo, error_reporter);
    return model ? Of(model, std::move(allocation), error_reporter) : nullptr;
  }

  // Makes another model of the bytes of one that exists. The size of others is not known: they are an error.
  static std::unique_ptr<FlatBufferModel> BuildFromModel(
      const Model* model, ErrorReporter* error_reporter = DefaultErrorReporter()) {
    auto opened = internal::OpenedModel::Find(model);
    if (opened) return std::unique_ptr<FlatBufferModel>(new FlatBufferModel(std::move(opened), error_reporter));
    (error_reporter ? error_reporter : DefaultErrorReporter())
        ->Report("The size of the model is not known: pass its bytes to BuildFromBuffer.");
    return nullptr;
  }

  // Models are always verified. A verifier of the program's is asked afterwards; null stands for none.
  static std::unique_ptr<FlatBufferModel> VerifyAndBuildFromFile(
      const char* filename, TfLiteVerifier* extra_verifier = nullptr,
      ErrorReporter* error_reporter = DefaultErrorReporter()) {
    return Verified(BuildFromFile(filename, error_reporter), extra_verifier);
  }
  static std::unique_ptr<FlatBufferModel> VerifyAndBuildFromBuffer(
      const char* buffer, size_t buffer_size, TfLiteVerifier* extra_verifier = nullptr,
      ErrorReporter* error_reporter = DefaultErrorReporter()) {
    return Verified(BuildFromBuffer(buffer, buffer_size, error_reporter), extra_verifier);
  }
  static std::unique_ptr<FlatBufferModel> VerifyAndBuildFromAllocation(
      std::unique_ptr<Allocation> allocation, TfLiteVerifier* extra_verifier = nullptr,
      ErrorReporter* error_reporter = DefaultErrorReporter()) {
    return Verified(BuildFromAllocation(std::move(allocation), error_reporter), extra_verifier);
  }

  FlatBufferModel(const FlatBufferModel&) = delete;
  FlatBufferModel& operator=(const FlatBufferModel&) = delete;

  bool initialized() const { return opened_ != nullptr; }
  bool operator!() const { return !initialized(); }
  ErrorReporter* error_reporter() const { return error_reporter_; }
  const TfLiteModel* c_model() const { return opened_->model(); }
  // What is in the file.
  const Model* GetModel() const { return opened_->tables(); }
  const Model* operator->() const { return GetModel(); }
  const Allocation* allocation() const { return opened_->allocation(); }
  const std::shared_ptr<const internal::OpenedModel>& opened() const { return opened_; }

  // The entries of the file that its creator added, by their names.
  std::map<std::string, std::string> ReadAllMetadata() const { return ReadAllMetadata(GetModel()); }
  static std::map<std::string, std::string> ReadAllMetadata(const Model* model) {
    std::map<std::string, std::string> all;
    if (!model || !model->metadata() || !model->buffers()) return all;
    for (const Metadata* entry : *model->metadata()) {
      if (!entry->name() || entry->buffer() >= model->buffers()->size()) continue;
      const auto* data = model->buffers()->Get(entry->buffer())->data();
      if (data) all[entry->name()->str()] = std::string(reinterpret_cast<const char*>(data->data()), data->size());
    }
    return all;
  }
  // The least version of TensorFlow Lite that runs the model, as the file states it; empty if it does not.
  std::string GetMinimumRuntime() const {
    const std::map<std::string, std::string> all = ReadAllMetadata();
    const auto found = all.find("min_runtime_version");
    // Zero bytes fill the entry.
    return found == all.end() ? std::string() : std::string(found->second.c_str());
  }
  // Whether the file says that it is a model.
  bool CheckModelIdentifier() const {
    const Allocation* bytes = allocation();
    if (bytes->bytes() >= 8 && ModelBufferHasIdentifier(bytes->base())) return true;
    error_reporter_->Report("The file does not have the identifier '%s' of models.", ModelIdentifier());
    return false;
  }
  // Whether data of the model is behind its tables, as in files of more than 2 GiB.
  static bool CheckBufferOutsideModel(const Model* model) {
    if (!model || !model->buffers()) return false;
    for (const Buffer* buffer : *model->buffers()) {
      if (buffer->offset() > 1) return true;
    }
    return false;
  }

 private:
  FlatBufferModel(std::shared_ptr<const internal::OpenedModel> opened, ErrorReporter* error_reporter)
      : opened_(std::move(opened)), error_reporter_(error_reporter ? error_reporter : DefaultErrorReporter()) {}

  static std::unique_ptr<FlatBufferModel> Of(
      TfLiteModel* model, std::unique_ptr<Allocation> allocation, ErrorReporter* error_reporter) {
    auto opened = internal::OpenedModel::Of(model, std::shared_ptr<const Allocation>(std::move(allocation)));
    return std::unique_ptr<FlatBufferModel>(new FlatBufferModel(std::move(opened), error_reporter));
  }

  static std::unique_ptr<FlatBufferModel> Verified(std::unique_ptr<FlatBufferModel> model, TfLiteVerifier* verifier) {
    if (!model || !verifier) return model;
    const Allocation* bytes = model->allocation();
    const bool is_accepted =
        verifier->Verify(
            static_cast<const char*>(bytes->base()), static_cast<int>(bytes->bytes()), model->error_reporter());
    return is_accepted ? std::move(model) : nullptr;
  }

  std::shared_ptr<const internal::OpenedModel> opened_;
  ErrorReporter* error_reporter_;
};

}  // namespace tflite

#endif
