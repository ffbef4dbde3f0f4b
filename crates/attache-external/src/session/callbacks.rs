#![allow(unsafe_code)]
//! The functions of `TfLiteContext`. C code calls them while it is called itself.

use std::ffi::{c_char, c_int, c_void};
use std::slice;

use attache_abi::report::{context_report, text_from_c};
use attache_abi::{
    TfLiteContext, TfLiteDelegate, TfLiteDelegateParams, TfLiteExternalContextType, TfLiteIntArray, TfLiteNode,
    TfLiteRegistration, TfLiteStatus, TfLiteTensor,
};

use super::{Session, preview, replace, resize};
use crate::guard::guard;
use crate::memory::Integers;
use crate::operator::Operator;

/// Returns a context with all functions and no tensors. Functions that only the runtime for microcontrollers has are null.
pub(super) fn context() -> TfLiteContext {
    TfLiteContext {
        GetExecutionPlan: Some(get_execution_plan),
        ResizeTensor: Some(resize_tensor),
        ReportError: Some(context_report),
        AddTensors: Some(add_tensors),
        GetNodeAndRegistration: Some(get_node_and_registration),
        ReplaceNodeSubsetsWithDelegateKernels: Some(replace_node_subsets),
        // No recommendation, until the number is known.
        recommended_num_threads: -1,
        GetExternalContext: Some(get_external_context),
        SetExternalContext: Some(set_external_context),
        ResizeTensorExplicit: Some(resize_tensor_explicit),
        PreviewDelegatePartitioning: Some(preview_delegate_partitioning),
        GetTensor: Some(get_tensor),
        GetModelMetadata: Some(get_model_metadata),
        AcquireSubgraphContext: Some(acquire_subgraph_context),
        ReleaseSubgraphContext: Some(release_subgraph_context),
        ..TfLiteContext::empty()
    }
}

/// Calls `call` with the session of a context. Null pointers, panics and errors become a status; the text of an error is
/// kept.
///
/// # Safety
///
/// `context` is null or a context of this library, as C code got it.
pub(crate) unsafe fn with_session(
    context: *const TfLiteContext,
    call: impl FnOnce(&mut Session) -> Result<(), String>,
) -> TfLiteStatus {
    guard(TfLiteStatus::ERROR, || {
        // SAFETY: the caller states where the context is from; C code is in progress, so nothing refers to the session.
        let Some(session) = (unsafe { Session::of(context) }) else { return TfLiteStatus::ERROR };
        match call(session) {
            Ok(()) => TfLiteStatus::OK,
            Err(text) => {
                session.note(text);
                TfLiteStatus::ERROR
            }
        }
    })
}

/// Takes the text of an error that C code reports.
pub(super) unsafe extern "C" fn take_error(context: *mut TfLiteContext, text: *const c_char) {
    // SAFETY: C code passes a context of this library, and `report.c` a text that ends with a zero byte.
    unsafe {
        with_session(context, |session| {
            session.note(text_from_c(text).unwrap_or("an error whose text is not UTF-8"));
            Ok(())
        });
    }
}

/// Writes a value to where C code wants it.
///
/// # Safety
///
/// `place` is null or may be written.
pub(crate) unsafe fn give<T>(place: *mut T, value: T) -> Result<(), String> {
    if place.is_null() {
        return Err("a pointer for a result is null".into());
    }
    // SAFETY: the caller states that the place may be written.
    unsafe { place.write(value) };
    Ok(())
}

pub(crate) unsafe extern "C" fn get_execution_plan(
    context: *mut TfLiteContext,
    plan: *mut *mut TfLiteIntArray,
) -> TfLiteStatus {
    // SAFETY: C code passes a context of this library and a place for the result.
    unsafe { with_session(context, |session| give(plan, session.plan())) }
}

pub(crate) unsafe extern "C" fn resize_tensor(
    context: *mut TfLiteContext,
    tensor: *mut TfLiteTensor,
    dims: *mut TfLiteIntArray,
) -> TfLiteStatus {
    // SAFETY: C code passes a context of this library, a tensor of it, and an array that it gives away.
    unsafe {
        let extents = Integers::new(TfLiteIntArray::elements(dims));
        let is_null = dims.is_null();
        TfLiteIntArray::free(dims);
        with_session(context, |_| match tensor.as_mut() {
            Some(tensor) if !is_null => resize(tensor, extents),
            _ => Err("ResizeTensor: the tensor or its shape is null".into()),
        })
    }
}

unsafe extern "C" fn resize_tensor_explicit(
    context: *mut TfLiteContext,
    tensor: *mut TfLiteTensor,
    dims: c_int,
    shape: *const c_int,
) -> TfLiteStatus {
    // SAFETY: C code passes a context of this library, a tensor of it, and as many extents as it says.
    unsafe {
        with_session(context, |_| match (tensor.as_mut(), usize::try_from(dims)) {
            (Some(tensor), Ok(count)) if count == 0 || !shape.is_null() => {
                let shape = if count == 0 { &[][..] } else { slice::from_raw_parts(shape, count) };
                resize(tensor, Integers::new(shape))
            }
            _ => Err("ResizeTensorExplicit: the tensor or its shape is null".into()),
        })
    }
}

unsafe extern "C" fn add_tensors(context: *mut TfLiteContext, count: c_int, first: *mut c_int) -> TfLiteStatus {
    // SAFETY: C code passes a context of this library; the place for the result may be null here.
    unsafe {
        with_session(context, |session| {
            let count = usize::try_from(count).map_err(|_| format!("AddTensors: {count} tensors"))?;
            let added = session.add_tensors(count);
            if !first.is_null() {
                give(first, added as c_int)?;
            }
            Ok(())
        })
    }
}

pub(crate) unsafe extern "C" fn get_node_and_registration(
    context: *mut TfLiteContext,
    index: c_int,
    node: *mut *mut TfLiteNode,
    registration: *mut *mut TfLiteRegistration,
) -> TfLiteStatus {
    // SAFETY: C code passes a context of this library and places for the results.
    unsafe {
        with_session(context, |session| {
            let found = session.node(index).as_mut().ok_or_else(|| format!("there is no node {index}"))?;
            give(node, &raw mut found.node)?;
            give(registration, &raw mut found.registration)
        })
    }
}

pub(crate) unsafe extern "C" fn replace_node_subsets(
    context: *mut TfLiteContext,
    registration: TfLiteRegistration,
    nodes: *const TfLiteIntArray,
    delegate: *mut TfLiteDelegate,
) -> TfLiteStatus {
    guard(TfLiteStatus::ERROR, || {
        // SAFETY: C code passes a context of this library, and what its function demands. `replace` calls C code, so no
        // reference to the session is held here.
        unsafe {
            let Some(session) = Session::of(context).map(|session| &raw mut *session) else {
                return TfLiteStatus::ERROR;
            };
            if nodes.is_null() || delegate.is_null() {
                (*session).note("ReplaceNodeSubsetsWithDelegateKernels: the nodes or the delegate is null");
                return TfLiteStatus::ERROR;
            }
            // The registration is given away with the operator in it, also where it is refused.
            (*session).own(registration.registration_external);
            match replace(session, registration, nodes, delegate) {
                Ok(()) => TfLiteStatus::OK,
                Err(text) => {
                    (*session).note(format!("ReplaceNodeSubsetsWithDelegateKernels: {text}"));
                    TfLiteStatus::ERROR
                }
            }
        }
    })
}

unsafe extern "C" fn preview_delegate_partitioning(
    context: *mut TfLiteContext,
    nodes: *const TfLiteIntArray,
    params: *mut *mut TfLiteDelegateParams,
    count: *mut c_int,
) -> TfLiteStatus {
    // SAFETY: C code passes a context of this library, an array or null, and places for the results.
    unsafe {
        with_session(context, |session| {
            let (array, length) = preview(session, TfLiteIntArray::elements(nodes))
                .map_err(|text| format!("PreviewDelegatePartitioning: {text}"))?;
            give(params, array)?;
            give(count, length as c_int)
        })
    }
}

unsafe extern "C" fn get_external_context(context: *mut TfLiteContext, kind: TfLiteExternalContextType) -> *mut c_void {
    // SAFETY: C code passes a context of this library or null.
    unsafe { Session::of(context) }.map_or(std::ptr::null_mut(), |session| session.external_context(kind.0))
}

unsafe extern "C" fn set_external_context(
    context: *mut TfLiteContext,
    kind: TfLiteExternalContextType,
    external: *mut c_void,
) {
    // SAFETY: C code passes a context of this library or null.
    if let Some(session) = unsafe { Session::of(context) } {
        session.set_external_context(kind.0, external);
    }
}

unsafe extern "C" fn get_tensor(context: *const TfLiteContext, index: c_int) -> *mut TfLiteTensor {
    // SAFETY: C code passes a context of this library or null.
    unsafe { Session::of(context) }.map_or(std::ptr::null_mut(), |session| session.tensor(index))
}

pub(crate) unsafe extern "C" fn get_model_metadata(
    context: *const TfLiteContext,
    name: *const c_char,
    start: *mut *const c_char,
    size: *mut usize,
) -> TfLiteStatus {
    // SAFETY: C code passes a context of this library, a text and places for the results.
    unsafe {
        with_session(context, |session| {
            let bytes = session.metadata(name).ok_or("the model has no metadata of this name")?;
            give(start, bytes.as_ptr().cast())?;
            give(size, bytes.len())
        })
    }
}

pub(crate) unsafe extern "C" fn acquire_subgraph_context(
    context: *mut TfLiteContext,
    index: c_int,
    acquired: *mut *mut TfLiteContext,
) -> TfLiteStatus {
    // SAFETY: C code passes a context of this library and a place for the result.
    unsafe {
        with_session(context, |session| {
            give(acquired, std::ptr::null_mut())?;
            give(acquired, session.acquire(index)?)
        })
    }
}

pub(crate) unsafe extern "C" fn release_subgraph_context(context: *mut TfLiteContext, index: c_int) -> TfLiteStatus {
    // SAFETY: C code passes a context of this library or null.
    unsafe {
        with_session(context, |session| {
            let is_known = session.has_acquired(index);
            if is_known { Ok(()) } else { Err(format!("the context of subgraph {index} was not acquired")) }
        })
    }
}

impl Session {
    /// Takes over an operator that a delegate gave away; does nothing for one that it has already, and for what is none.
    fn own(&mut self, operator: *mut attache_abi::TfLiteOperator) {
        if Operator::at(operator).is_some() && !self.operators.contains(&operator) {
            self.operators.push(operator);
        }
    }
}
