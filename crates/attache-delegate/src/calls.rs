#![allow(unsafe_code)]
//! Subgraphs that operators run, as the runtime shows them to a delegate.
//!
//! A runtime applies a delegate to each of its subgraphs. Attaché's own delegate takes nodes of the subgraph that a caller
//! runs; subgraphs that operators run stay on the CPU with the operator, or are a part of what the operator computes. So
//! this one leaves them as well.

use std::ffi::c_int;

use attache::model::schema::{BuiltinOperator, BuiltinOptions2T, BuiltinOptionsT};
use attache_abi::{Options, TfLiteContext, TfLiteIntArray, TfLiteNode, TfLiteRegistration, options_of};

/// The number of subgraphs that are looked at.
const MOST: c_int = 1 << 16;

/// Returns the subgraphs that an operator runs, by their indices in the model.
pub(crate) fn callees(options: &Options) -> Vec<i32> {
    let first = match &options.first {
        BuiltinOptionsT::CallOnceOptions(options) => vec![options.init_subgraph_index],
        BuiltinOptionsT::IfOptions(options) => vec![options.then_subgraph_index, options.else_subgraph_index],
        BuiltinOptionsT::WhileOptions(options) => vec![options.cond_subgraph_index, options.body_subgraph_index],
        _ => Vec::new(),
    };
    let second = match &options.second {
        BuiltinOptions2T::StableHLOCompositeOptions(options) => vec![options.decomposition_subgraph_index],
        BuiltinOptions2T::StablehloCaseOptions(options) => options.branch_subgraph_indices.clone().unwrap_or_default(),
        BuiltinOptions2T::StablehloReduceWindowOptions(options) => vec![options.body_subgraph_index],
        BuiltinOptions2T::StablehloScatterOptions(options) => vec![options.update_computation_subgraph_index],
        _ => Vec::new(),
    };
    [first, second].concat()
}

/// Returns the options of a node, and `None` for one whose struct is not documented.
///
/// # Safety
///
/// Both structs are the runtime's, which `context` belongs to.
pub(crate) unsafe fn options_of_node(
    context: *const TfLiteContext,
    node: &TfLiteNode,
    registration: &TfLiteRegistration,
) -> Option<Options> {
    // SAFETY: the caller states that the structs are the runtime's, so their pointers are null or valid.
    unsafe {
        let input = TfLiteIntArray::elements(node.inputs).first().and_then(|input| usize::try_from(*input).ok());
        let input = input.filter(|input| *input < (*context).tensors_size);
        let rank = input.map_or(0, |input| TfLiteIntArray::elements((*(*context).tensors.add(input)).dims).len());
        options_of(BuiltinOperator(registration.builtin_code), node.builtin_data, rank)
    }
}

/// Calls `look` with the context of a subgraph; `None` if the runtime does not give it.
///
/// # Safety
///
/// The context is the one that the runtime passed to a delegate.
pub(crate) unsafe fn with_subgraph<T>(
    context: *mut TfLiteContext,
    index: c_int,
    look: impl FnOnce(*mut TfLiteContext) -> T,
) -> Option<T> {
    // SAFETY: the caller passes a valid context, whose functions may be called with it.
    unsafe {
        let functions = *context;
        let mut other = std::ptr::null_mut();
        let acquired = functions.AcquireSubgraphContext?(context, index, &mut other);
        if !acquired.is_ok() || other.is_null() {
            return None;
        }
        let result = look(other);
        // Releasing takes the functions for delegates from a context, and this one has to keep them.
        if let Some(release) = functions.ReleaseSubgraphContext.filter(|_| other != context) {
            release(context, index);
        }
        Some(result)
    }
}

/// Whether operators of other subgraphs run the one of a context.
///
/// # Safety
///
/// As [`with_subgraph`].
pub(crate) unsafe fn is_called(context: *mut TfLiteContext) -> bool {
    let (mut own, mut called) = (None, Vec::new());
    for index in 0..MOST {
        // SAFETY: the caller states what these take.
        let found = unsafe { with_subgraph(context, index, |other| (other == context, called_by(other))) };
        match found {
            // Nothing runs the first subgraph.
            Some((true, _)) if index == 0 => return false,
            Some((true, _)) => own = Some(index),
            Some((false, callees)) => called.extend(callees),
            None => break,
        }
    }
    own.is_some_and(|own| called.contains(&own))
}

/// Returns the subgraphs that the nodes of a context run.
///
/// # Safety
///
/// As [`with_subgraph`].
unsafe fn called_by(context: *mut TfLiteContext) -> Vec<i32> {
    // SAFETY: the caller passes a valid context; what its functions return is valid until the plan is changed.
    unsafe {
        let functions = *context;
        let (Some(plan_of), Some(node_of)) = (functions.GetExecutionPlan, functions.GetNodeAndRegistration) else {
            return Vec::new();
        };
        let mut plan = std::ptr::null_mut();
        if !plan_of(context, &mut plan).is_ok() {
            return Vec::new();
        }
        let of_node = |index: &c_int| {
            let (mut node, mut registration) = (std::ptr::null_mut(), std::ptr::null_mut());
            let found = node_of(context, *index, &mut node, &mut registration).is_ok();
            let options = if found { options_of_node(context, &*node, &*registration) } else { None };
            options.as_ref().map(callees).unwrap_or_default()
        };
        TfLiteIntArray::elements(plan).to_vec().iter().flat_map(of_node).collect()
    }
}

#[cfg(test)]
mod tests {
    use attache::model::schema::{IfOptionsT, StablehloScatterOptionsT};

    use super::*;

    #[test]
    fn operators_run_the_subgraphs_of_their_options() {
        let branches = IfOptionsT { then_subgraph_index: 2, else_subgraph_index: 5 };
        let options = Options { first: BuiltinOptionsT::IfOptions(Box::new(branches)), ..Options::default() };
        assert_eq!(callees(&options), [2, 5]);
        let scatter = StablehloScatterOptionsT { update_computation_subgraph_index: 3, ..Default::default() };
        let second = BuiltinOptions2T::StablehloScatterOptions(Box::new(scatter));
        assert_eq!(callees(&Options { second, ..Options::default() }), [3]);
        assert!(callees(&Options::default()).is_empty());
    }
}
