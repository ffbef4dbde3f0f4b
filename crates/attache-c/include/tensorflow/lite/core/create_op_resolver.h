/* create_op_resolver.h under another path. */

#ifndef TENSORFLOW_LITE_CORE_CREATE_OP_RESOLVER_H_
#define TENSORFLOW_LITE_CORE_CREATE_OP_RESOLVER_H_

#include "tensorflow/lite/create_op_resolver.h"

#endif
