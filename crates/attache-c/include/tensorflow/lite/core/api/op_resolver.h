// What finds the operators of a model, in C++.

#ifndef TENSORFLOW_LITE_CORE_API_OP_RESOLVER_H_
#define TENSORFLOW_LITE_CORE_API_OP_RESOLVER_H_

#include <functional>
#include <memory>
#include <vector>

#include "tensorflow/lite/c/common.h"
#include "tensorflow/lite/error_reporter.h"
#include "tensorflow/lite/schema/schema_generated.h"

namespace tflite {

// Finds the registration of an operator; null if the program does not want the operator. InterpreterBuilder asks for each
// operator that a model uses, and copies what it gets. Registrations of attache/operators.h stand for the library's own.
class OpResolver {
 public:
  virtual const TfLiteRegistration* FindOp(BuiltinOperator op, int version) const = 0;
  virtual const TfLiteRegistration* FindOp(const char* op, int version) const = 0;
  virtual ~OpResolver() = default;

  using TfLiteDelegateCreator =
      std::function<std::unique_ptr<TfLiteDelegate, void (*)(TfLiteDelegate*)>(TfLiteContext* context)>;
  using TfLiteDelegateCreators = std::vector<TfLiteDelegateCreator>;
  // Functions that make delegates, which each interpreter gets after those of its builder. The context has the number of
  // threads, and no functions.
  virtual TfLiteDelegateCreators GetDelegateCreators() const { return {}; }

  using TfLiteOpaqueDelegatePtr =
      std::unique_ptr<TfLiteOpaqueDelegateStruct, void (*)(TfLiteOpaqueDelegateStruct*)>;
  using TfLiteOpaqueDelegateCreator = std::function<TfLiteOpaqueDelegatePtr(int num_threads)>;
  using TfLiteOpaqueDelegateCreators = std::vector<TfLiteOpaqueDelegateCreator>;
  // For runtimes whose delegates are opaque. Not called here.
  virtual TfLiteOpaqueDelegateCreators GetOpaqueDelegateCreators() const { return {}; }

 private:
  // Whether operators other than the library's may be found. Not called here.
  virtual bool MayContainUserDefinedOps() const { return true; }
};

}  // namespace tflite

#endif
