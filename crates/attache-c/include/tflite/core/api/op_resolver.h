/* op_resolver.h under another path. */

#ifndef TFLITE_CORE_API_OP_RESOLVER_H_
#define TFLITE_CORE_API_OP_RESOLVER_H_

#include "tensorflow/lite/core/api/op_resolver.h"

#endif
