#![allow(unsafe_code)]
//! What a delegate replaces: which partitions that makes, and the kernels that stand for them.

use std::collections::BTreeSet;
use std::ffi::c_int;

use attache::graph::NodeId;
use attache_abi::{TfLiteDelegate, TfLiteDelegateParams, TfLiteIntArray, TfLiteRegistration};

use super::nodes::{HostNode, Params};
use super::{Claims, Session, opaque_data};
use crate::calls::Functions;
use crate::memory::Integers;

impl Claims {
    /// Returns the nodes with these numbers. A number that is not in the plan, or is there twice, is an error.
    fn ids(&self, numbers: &[c_int]) -> Result<Vec<NodeId>, String> {
        let mut seen = BTreeSet::new();
        let id = |number: &c_int| match self.nodes.get(number) {
            Some(id) if seen.insert(*number) => Ok(*id),
            Some(_) => Err(format!("node {number} is named twice")),
            None => Err(format!("node {number} is not in the execution plan")),
        };
        numbers.iter().map(id).collect()
    }

    /// Describes each partition that these nodes make. Inputs include constants.
    fn partitions(&self, ids: &[NodeId], delegate: *mut TfLiteDelegate) -> Vec<(Vec<NodeId>, Params)> {
        let partitions = self.view.clustering.partitions_after(&self.replaced, ids);
        partitions.into_iter().map(|nodes| (nodes.clone(), self.params(&nodes, delegate))).collect()
    }

    fn params(&self, nodes: &[NodeId], delegate: *mut TfLiteDelegate) -> Params {
        let graph = &self.view.graph;
        let inside: BTreeSet<NodeId> = nodes.iter().copied().collect();
        let made: BTreeSet<_> = nodes.iter().flat_map(|id| graph.node(*id).outputs.iter().copied()).collect();
        let read: BTreeSet<_> = nodes.iter().flat_map(|id| graph.node(*id).inputs.iter().flatten().copied()).collect();
        let is_read_outside = |index: usize| self.consumers[index].iter().any(|reader| !inside.contains(reader));
        let outputs =
            made.iter().map(|id| id.index()).filter(|index| self.is_output[*index] || is_read_outside(*index));
        let inputs = read.difference(&made).map(|id| id.index());
        let numbers = nodes.iter().filter_map(|id| self.numbers[id.index()]);
        // SAFETY: the delegate is the one that prepares, or null in a preview.
        let data = if delegate.is_null() { None } else { unsafe { opaque_data(delegate) } };
        let data = data.unwrap_or(std::ptr::null_mut());
        let (numbers, inputs) = (Integers::of_indices(numbers), Integers::of_indices(inputs));
        Params::new(delegate, data, numbers, inputs, Integers::of_indices(outputs))
    }
}

/// Computes the partitions that these nodes would make, and returns the array, which stays until the next preview.
pub(crate) fn preview(session: &mut Session, numbers: &[c_int]) -> Result<(*mut TfLiteDelegateParams, usize), String> {
    let claims = session.claims.as_ref().ok_or("an operator has no partitions")?;
    if !claims.is_open {
        return Err("partitions are those of the subgraph that is prepared".into());
    }
    let ids = claims.ids(numbers)?;
    let params: Vec<_> = claims.partitions(&ids, std::ptr::null_mut()).into_iter().map(|(_, params)| params).collect();
    let structs = params.iter().map(Params::classic).collect();
    session.previews = (params, structs);
    Ok((session.previews.1.as_mut_ptr(), session.previews.1.len()))
}

/// Replaces nodes by kernels, one for each partition, and makes the kernels' data.
///
/// # Safety
///
/// `session` is valid and nothing refers to it. `registration`, `numbers` and `delegate` are valid, as the documentation
/// of TensorFlow Lite's function demands it.
pub(crate) unsafe fn replace(
    session: *mut Session,
    registration: TfLiteRegistration,
    numbers: *const TfLiteIntArray,
    delegate: *mut TfLiteDelegate,
) -> Result<(), String> {
    // SAFETY: the caller states that all pointers are valid; references to the session end before C code is called.
    unsafe {
        let numbers = TfLiteIntArray::elements(numbers);
        let (functions, is_opaque) = (Functions::new(&registration), opaque_data(delegate).is_some());
        let claims = (*session).claims.as_mut().ok_or("an operator replaces no nodes")?;
        if !claims.is_open {
            return Err("nodes can be replaced only while the delegate prepares".into());
        }
        let ids = claims.ids(numbers)?;
        let partitions = claims.partitions(&ids, delegate);
        claims.replaced.push(ids);
        claims.nodes.retain(|number, _| !numbers.contains(number));
        let first = (*session).nodes.len();
        for (nodes, params) in partitions {
            let node = HostNode::of_partition(registration, functions.clone(), params, nodes, is_opaque);
            let all = &mut (*session).nodes;
            all.push(Box::new(node));
        }
        let last = (*session).nodes.len();
        (*session).replace_in_plan(numbers, first..last);
        let context = &raw mut (*session).context;
        for index in first..last {
            let node = &raw mut *(&mut (*session).nodes)[index];
            (*node).node.user_data = functions.init(context, (*node).node.builtin_data.cast(), 0);
        }
        Ok(())
    }
}

impl Session {
    /// Puts the numbers of kernels in the place of the first of the nodes that they replace.
    fn replace_in_plan(&mut self, replaced: &[c_int], kernels: std::ops::Range<usize>) {
        let before = self.plans.last().map_or(&[][..], Integers::elements);
        let mut kernels = Some(kernels);
        let mut plan = Vec::with_capacity(before.len());
        for number in before {
            if !replaced.contains(number) {
                plan.push(*number);
            } else if let Some(kernels) = kernels.take() {
                plan.extend(kernels.map(|kernel| kernel as c_int));
            }
        }
        self.plans.push(Integers::new(&plan));
    }
}
