/* op_resolver.h under another path. */

#ifndef TENSORFLOW_LITE_CORE_API_OP_RESOLVER_H_
#define TENSORFLOW_LITE_CORE_API_OP_RESOLVER_H_

#include "tensorflow/lite/op_resolver.h"

#endif
