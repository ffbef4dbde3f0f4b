#![allow(unsafe_code)]
//! The functions of the opaque API, called without a runtime: null pointers, strings, operators and tensors' behaviour.

use std::ffi::{c_char, c_int};
use std::ptr::{null, null_mut};

use attache_abi::{
    TfLiteAllocationType, TfLiteBuiltinOperator, TfLiteIntArray, TfLiteOpaqueDelegateBuilder, TfLiteStatus,
    TfLiteTensor, TfLiteType,
};
use attache_external::opaque::context::*;
use attache_external::opaque::delegate::*;
use attache_external::opaque::node::*;
use attache_external::opaque::operator::*;
use attache_external::opaque::tensor::*;
use attache_external::opaque::tensor_builder::*;
use attache_external::opaque::text::*;

const ERROR: TfLiteStatus = TfLiteStatus::ERROR;

#[test]
fn null_contexts_and_nodes_are_errors() {
    let (context, node) = (null_mut(), null_mut());
    // SAFETY: the functions take null pointers.
    unsafe {
        assert_eq!(TfLiteOpaqueContextGetExecutionPlan(context, null_mut()), ERROR);
        assert_eq!(TfLiteOpaqueContextGetNodeAndRegistration(context, 0, null_mut(), null_mut()), ERROR);
        let status = TfLiteOpaqueContextReplaceNodeSubsetsWithDelegateKernels(context, null_mut(), null(), null_mut());
        assert_eq!(status, ERROR);
        assert!(TfLiteOpaqueContextGetOpaqueTensor(context, 0).is_null());
        assert_eq!(TfLiteOpaqueContextGetInputs(context, null_mut(), null_mut()), ERROR);
        assert_eq!((TfLiteOpaqueContextGetNumNodes(context), TfLiteOpaqueContextGetNumTensors(context)), (0, 0));
        assert!(TfLiteOpaqueContextGetName(context).is_null());
        assert_eq!(TfLiteOpaqueContextResizeTensor(context, null_mut(), TfLiteIntArray::zeros(1)), ERROR);
        assert_eq!(TfLiteOpaqueContextAcquireSubgraphContext(context, 0, null_mut()), ERROR);
        assert_eq!(TfLiteOpaqueContextAddTensor(context, null_mut(), null_mut()), ERROR);
        assert_eq!(TfLiteOpaqueContextGetMetadata(context, null(), null_mut(), null_mut()), ERROR);
        TfLiteOpaqueContextReportErrorVa(context, c"%d".as_ptr(), null_mut());
        assert!(TfLiteOpaqueNodeGetInput(context, node, 0).is_null());
        assert!(TfLiteOpaqueNodeGetOutput(context, node, 0).is_null());
        assert_eq!((TfLiteOpaqueNodeNumberOfInputs(node), TfLiteOpaqueNodeNumberOfOutputs(node)), (0, 0));
        assert!(TfLiteOpaqueNodeGetUserData(node).is_null() && TfLiteOpaqueNodeGetBuiltinData(node).is_null());
        assert_eq!(TfLiteOpaqueNodeInputs(node, null_mut(), null_mut()), ERROR);
        assert_eq!(TfLiteOpaqueNodeSetTemporaries(node, null(), 1), ERROR);
        assert_eq!(TfLiteOpaqueNodeGetInputTensorIndex(node, 0), -1);
    }
}

#[test]
fn null_tensors_and_operators_have_nothing() {
    // SAFETY: the functions take null pointers.
    unsafe {
        let tensor: *mut TfLiteTensor = null_mut();
        assert_eq!(TfLiteOpaqueTensorType(tensor), TfLiteType::NO_TYPE);
        assert_eq!((TfLiteOpaqueTensorNumDims(tensor), TfLiteOpaqueTensorDim(tensor, 0)), (-1, -1));
        assert!(TfLiteOpaqueTensorData(tensor).is_null() && TfLiteOpaqueTensorName(tensor).is_null());
        assert_eq!(TfLiteOpaqueTensorCopyFromBuffer(tensor, null(), 0), ERROR);
        assert_eq!(TfLiteOpaqueTensorGetStringCount(tensor), -1);
        assert_eq!(TfLiteOpaqueTensorWriteString(tensor, null(), 0), ERROR);
        assert_eq!(TfLiteOpaqueTensorSetNonCpuAllocation(tensor), ERROR);
        let mut elsewhere = TfLiteTensor::empty();
        assert_eq!(TfLiteOpaqueTensorSetNonCpuAllocation(&mut elsewhere), TfLiteStatus::OK);
        assert_eq!(elsewhere.allocation_type, TfLiteAllocationType::NON_CPU);
        TfLiteOpaqueTensorSetAllocationTypeToDynamic(tensor);
        TfLiteOpaqueTensorBuilderDelete(null_mut());
        assert!(TfLiteOpaqueTensorBuilderSetType(null_mut(), TfLiteType::INT8).is_null());
        assert!(TfLiteOpaqueDelegateCreate(null()).is_null() && TfLiteOpaqueDelegateGetData(null()).is_null());
        TfLiteOpaqueDelegateDelete(null_mut());
        TfLiteOperatorDelete(null_mut());
        TfLiteOperatorSetInit(null_mut(), None);
        assert!(TfLiteOperatorGetCustomName(null()).is_null());
        assert_eq!(TfLiteOperatorGetVersion(null()), -1);
    }
}

#[test]
fn operators_and_delegates_keep_what_they_are_made_with() {
    let mut data = 7;
    let data = (&raw mut data).cast();
    // SAFETY: the texts and the builder are valid, and what is made is deleted once.
    unsafe {
        let operator = TfLiteOperatorCreate(TfLiteBuiltinOperator::CUSTOM, c"Mine".as_ptr(), 3, data);
        assert_eq!(std::ffi::CStr::from_ptr(TfLiteOperatorGetCustomName(operator)), c"Mine");
        assert_eq!(TfLiteOperatorGetBuiltInCode(operator), TfLiteBuiltinOperator::CUSTOM);
        assert_eq!((TfLiteOperatorGetVersion(operator), TfLiteOperatorGetUserData(operator)), (3, data));
        TfLiteOperatorDelete(operator);
        let none = (None, None, None, None);
        let builder = TfLiteOpaqueDelegateBuilder {
            data,
            Prepare: none.0,
            CopyFromBufferHandle: none.1,
            CopyToBufferHandle: none.2,
            FreeBufferHandle: none.3,
            flags: 1,
        };
        let delegate = TfLiteOpaqueDelegateCreate(&builder);
        assert_eq!((TfLiteOpaqueDelegateGetData(delegate), (*delegate).flags), (data, 1));
        TfLiteOpaqueDelegateDelete(delegate);
    }
}

#[test]
fn strings_are_written_and_read() {
    let mut tensor = TfLiteTensor { kind: TfLiteType::STRING, ..TfLiteTensor::empty() };
    // SAFETY: the tensor and the texts are valid; what the tensor points to is freed once, at the end.
    unsafe {
        let texts = [c"one".as_ptr(), c"".as_ptr(), c"three".as_ptr()];
        assert!(TfLiteOpaqueTensorWriteStrings(&mut tensor, texts.as_ptr(), 3, [3, 0, 5].as_ptr()).is_ok());
        assert_eq!((TfLiteOpaqueTensorGetStringCount(&tensor), TfLiteOpaqueTensorDim(&tensor, 0)), (3, 3));
        assert_eq!(TfLiteOpaqueTensorGetAllocationType(&tensor), TfLiteAllocationType::DYNAMIC);
        let (mut start, mut length): (*const c_char, c_int) = (null(), 0);
        assert!(TfLiteOpaqueTensorGetString(&tensor, 2, &mut start, &mut length).is_ok());
        assert_eq!(std::slice::from_raw_parts(start.cast::<u8>(), length as usize), b"three");
        assert_eq!(TfLiteOpaqueTensorGetString(&tensor, 3, &mut start, &mut length), ERROR);
        assert!(TfLiteOpaqueTensorWriteString(&mut tensor, c"more".as_ptr(), 4).is_ok());
        assert_eq!(TfLiteOpaqueTensorGetStringCount(&tensor), 1);
        TfLiteIntArray::free(tensor.dims);
        libc::free(tensor.data);
    }
}

#[test]
fn the_behaviour_of_memory_is_told() {
    let told = |allocation_type| {
        let tensor = TfLiteTensor { allocation_type, ..TfLiteTensor::empty() };
        // SAFETY: the tensor is valid.
        unsafe {
            [
                TfLiteOpaqueTensorGetAllocationStrategy(&tensor),
                TfLiteOpaqueTensorGetBufferAddressStability(&tensor),
                TfLiteOpaqueTensorGetDataStability(&tensor),
                TfLiteOpaqueTensorGetDataKnownStep(&tensor),
                TfLiteOpaqueTensorGetShapeKnownStep(&tensor),
            ]
        }
    };
    // What TensorFlow Lite's library says.
    assert_eq!(told(TfLiteAllocationType::MMAP_RO), [2, 3, 3, 1, 1]);
    assert_eq!(told(TfLiteAllocationType::ARENA_RW), [3, 1, 2, 3, 2]);
    assert_eq!(told(TfLiteAllocationType::DYNAMIC), [4, 2, 2, 3, 3]);
    assert_eq!(told(TfLiteAllocationType(99)), [0; 5]);
}
