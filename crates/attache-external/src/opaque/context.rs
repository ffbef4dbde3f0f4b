#![allow(unsafe_code)]
//! `TfLiteOpaqueContext…`. Contexts are those of sessions of this library.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use std::arch::naked_asm;
use std::ffi::{c_char, c_int, c_void};

use attache_abi::report::{context_report, context_report_va};
use attache_abi::{
    TfLiteBuiltinOperator, TfLiteContext, TfLiteDelegate, TfLiteExternalContextType, TfLiteIntArray, TfLiteNode,
    TfLiteOperator, TfLiteRegistration, TfLiteStatus, TfLiteTensor, TfLiteType,
};

use super::tensor_builder::TfLiteOpaqueTensorBuilder;
use crate::guard::guard;
use crate::operator::Operator;
use crate::session::Session;
use crate::session::callbacks::{
    acquire_subgraph_context, get_execution_plan, get_model_metadata, get_node_and_registration, give,
    release_subgraph_context, replace_node_subsets, resize_tensor, with_session,
};

/// Tells C code where a list of indices is and how long.
///
/// # Safety
///
/// The context is null or of this library, and the places may be written.
unsafe fn tell(
    context: *const TfLiteContext,
    start: *mut *const c_int,
    length: *mut c_int,
    list: impl FnOnce(&Session) -> &[c_int],
) -> TfLiteStatus {
    // SAFETY: the caller states it.
    unsafe {
        with_session(context, |session| {
            let list = list(session);
            give(start, list.as_ptr())?;
            give(length, list.len() as c_int)
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueContextGetExecutionPlan(
    context: *mut TfLiteContext,
    plan: *mut *mut TfLiteIntArray,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe { get_execution_plan(context, plan) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueContextGetExternalContext(
    context: *mut TfLiteContext,
    external: *mut *mut c_void,
    kind: TfLiteExternalContextType,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe {
        with_session(context, |session| give(external, session.external_context(kind.0)))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueContextGetNodeAndRegistration(
    context: *mut TfLiteContext,
    index: c_int,
    node: *mut *mut TfLiteNode,
    operator: *mut *mut TfLiteOperator,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe {
        let mut registration: *mut TfLiteRegistration = std::ptr::null_mut();
        let status = get_node_and_registration(context, index, node, &mut registration);
        if !status.is_ok() || operator.is_null() {
            return TfLiteStatus::ERROR;
        }
        operator.write((*registration).registration_external);
        TfLiteStatus::OK
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueContextReplaceNodeSubsetsWithDelegateKernels(
    context: *mut TfLiteContext,
    operator: *mut TfLiteOperator,
    nodes: *const TfLiteIntArray,
    delegate: *mut TfLiteDelegate,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe {
        let Some(kernel) = operator.cast::<Operator>().as_ref() else { return TfLiteStatus::ERROR };
        let registration = TfLiteRegistration {
            builtin_code: TfLiteBuiltinOperator::DELEGATE.0,
            custom_name: kernel.name(),
            version: kernel.version,
            registration_external: operator,
            inplace_operator: kernel.inplace,
            ..TfLiteRegistration::empty()
        };
        replace_node_subsets(context, registration, nodes, delegate)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueContextGetOpaqueTensor(
    context: *const TfLiteContext,
    index: c_int,
) -> *mut TfLiteTensor {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(std::ptr::null_mut(), || unsafe {
        Session::of(context).map_or(std::ptr::null_mut(), |session| session.tensor(index))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueContextGetInputs(
    context: *const TfLiteContext,
    start: *mut *const c_int,
    length: *mut c_int,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe { tell(context, start, length, |session| &session.inputs) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueContextGetOutputs(
    context: *const TfLiteContext,
    start: *mut *const c_int,
    length: *mut c_int,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe { tell(context, start, length, |session| &session.outputs) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueContextGetVariables(
    context: *const TfLiteContext,
    start: *mut *const c_int,
    length: *mut c_int,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe { tell(context, start, length, |session| &session.variables) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueContextGetNumNodes(context: *const TfLiteContext) -> usize {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(0, || unsafe { Session::of(context).map_or(0, |session| session.nodes.len()) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueContextGetNumTensors(context: *const TfLiteContext) -> usize {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(0, || unsafe { Session::of(context).map_or(0, |session| session.tensors.len()) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueContextGetName(context: *const TfLiteContext) -> *const c_char {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(std::ptr::null(), || unsafe {
        Session::of(context).map_or(std::ptr::null(), |session| session.name.as_ptr())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueContextResizeTensor(
    context: *mut TfLiteContext,
    tensor: *mut TfLiteTensor,
    dims: *mut TfLiteIntArray,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe { resize_tensor(context, tensor, dims) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueContextAcquireSubgraphContext(
    context: *mut TfLiteContext,
    index: c_int,
    acquired: *mut *mut TfLiteContext,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe { acquire_subgraph_context(context, index, acquired) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueContextReleaseSubgraphContext(
    context: *mut TfLiteContext,
    index: c_int,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe { release_subgraph_context(context, index) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueContextMarkSubgraphAsDelegationSkippable(
    context: *mut TfLiteContext,
    index: c_int,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe {
        with_session(context, |session| {
            let count = session.source().map_or(0, |(model, _)| model.subgraphs().len());
            match usize::try_from(index) {
                // Subgraphs that others call are prepared apart, and only if they run.
                Ok(index) if (1..count).contains(&index) => Ok(()),
                _ => Err(format!("there is no subgraph {index} that another one calls")),
            }
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueContextGetNodeInitDataMmapInfo(
    context: *const TfLiteContext,
    node: *const TfLiteNode,
    _file: *mut c_int,
    _offset: *mut i64,
    _size: *mut i64,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe {
        with_session(context, |session| {
            if !session.has_node(node) {
                return Err("GetNodeInitDataMmapInfo: the node is not of this context".into());
            }
            Err("GetNodeInitDataMmapInfo: the data is in memory, and not told of which file".into())
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueContextAddTensor(
    context: *mut TfLiteContext,
    builder: *mut TfLiteOpaqueTensorBuilder,
    index: *mut c_int,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe {
        with_session(context, |session| {
            let builder = builder.as_ref().ok_or("AddTensor: the builder is null")?;
            builder.check()?;
            let added = session.add_tensors(1);
            if let Some(tensor) = session.tensor(added as c_int).as_mut() {
                builder.fill(tensor);
            }
            if index.is_null() { Ok(()) } else { give(index, added as c_int) }
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueContextGetSizeOfType(
    context: *mut TfLiteContext,
    kind: TfLiteType,
    bytes: *mut usize,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe {
        with_session(context, |_| {
            let bits = kind.data_type().and_then(|kind| kind.bits());
            let bits = bits.ok_or_else(|| format!("type {} has no size", kind.0))?;
            give(bytes, bits.div_ceil(8))
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueContextGetMetadata(
    context: *mut TfLiteContext,
    name: *const c_char,
    start: *mut *const c_char,
    size: *mut usize,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe { get_model_metadata(context, name, start, size) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueContextReportErrorVa(
    context: *mut TfLiteContext,
    format: *const c_char,
    arguments: *mut c_void,
) {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard((), || unsafe { context_report_va(context, format, arguments) })
}

/// Takes a format and arguments of any number, which Rust cannot: it goes on in the function of C that can.
#[unsafe(no_mangle)]
#[unsafe(naked)]
#[cfg(target_arch = "x86_64")]
pub unsafe extern "C" fn TfLiteOpaqueContextReportError() {
    naked_asm!("jmp {}", sym context_report)
}

/// Takes a format and arguments of any number, which Rust cannot: it goes on in the function of C that can.
#[unsafe(no_mangle)]
#[unsafe(naked)]
#[cfg(target_arch = "aarch64")]
pub unsafe extern "C" fn TfLiteOpaqueContextReportError() {
    naked_asm!("b {}", sym context_report)
}

/// Reports the format as it is, where no function can take arguments of any number.
///
/// # Safety
///
/// The context is null or of this library, and the format ends with a zero byte.
#[unsafe(no_mangle)]
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub unsafe extern "C" fn TfLiteOpaqueContextReportError(context: *mut TfLiteContext, format: *const c_char) {
    // SAFETY: the caller states it; the format has one argument.
    unsafe { context_report(context, c"%s".as_ptr(), format) };
}

pub(super) static TABLE: super::Table = super::Table(&[
    TfLiteOpaqueContextGetExecutionPlan as *const (),
    TfLiteOpaqueContextGetExternalContext as *const (),
    TfLiteOpaqueContextGetNodeAndRegistration as *const (),
    TfLiteOpaqueContextReplaceNodeSubsetsWithDelegateKernels as *const (),
    TfLiteOpaqueContextGetOpaqueTensor as *const (),
    TfLiteOpaqueContextGetInputs as *const (),
    TfLiteOpaqueContextGetOutputs as *const (),
    TfLiteOpaqueContextGetVariables as *const (),
    TfLiteOpaqueContextGetNumNodes as *const (),
    TfLiteOpaqueContextGetNumTensors as *const (),
    TfLiteOpaqueContextGetName as *const (),
    TfLiteOpaqueContextResizeTensor as *const (),
    TfLiteOpaqueContextAcquireSubgraphContext as *const (),
    TfLiteOpaqueContextReleaseSubgraphContext as *const (),
    TfLiteOpaqueContextMarkSubgraphAsDelegationSkippable as *const (),
    TfLiteOpaqueContextGetNodeInitDataMmapInfo as *const (),
    TfLiteOpaqueContextAddTensor as *const (),
    TfLiteOpaqueContextGetSizeOfType as *const (),
    TfLiteOpaqueContextGetMetadata as *const (),
    TfLiteOpaqueContextReportErrorVa as *const (),
    TfLiteOpaqueContextReportError as *const (),
]);
