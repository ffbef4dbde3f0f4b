//! Links partitions of the same delegate: tensors pass from one to a later one on the device instead of through the
//! host, if the kernels support that.

use attache_graph::{Graph, TensorId};

use crate::partition::Unit;
use crate::partition::assign::{Delegated, Work};

/// Links the kernels of each delegate. If all readers of an output take it from the device, its kernel is told so.
pub(crate) fn link(graph: &Graph, work: &mut [Work]) {
    let mut linked = Vec::new();
    for later in 1..work.len() {
        let (before, rest) = work.split_at_mut(later);
        let Some(Work::Island(reader)) = rest.first_mut() else { continue };
        for input in 0..reader.inputs.len() {
            if take(before, reader, input) {
                linked.push((later, reader.inputs[input]));
            }
        }
    }
    let is_kept = |work: &[Work], id: TensorId| {
        let reads = |(index, unit): (usize, &Work)| unit.inputs(graph).contains(&id) && !linked.contains(&(index, id));
        linked.iter().any(|(_, other)| *other == id)
            && !graph.outputs.contains(&id)
            && !work.iter().enumerate().any(reads)
    };
    for index in 0..work.len() {
        let Work::Island(maker) = &work[index] else { continue };
        let ids = maker.outputs.iter().enumerate();
        let kept: Vec<usize> = ids.filter(|(_, id)| is_kept(work, **id)).map(|(place, _)| place).collect();
        if let (Work::Island(maker), false) = (&mut work[index], kept.is_empty()) {
            maker.kernel.keep_outputs(&kept);
        }
    }
}

/// Has a partition take an input directly from the partition of the same delegate that makes it. Returns whether that
/// worked.
fn take(before: &mut [Work], reader: &mut Delegated, input: usize) -> bool {
    let id = reader.inputs[input];
    let makers = before.iter_mut().filter_map(|work| match work {
        Work::Island(island) if island.delegate == reader.delegate => Some(island),
        Work::Island(_) | Work::Node(_) => None,
    });
    let shared = makers.filter_map(|maker| {
        let output = maker.outputs.iter().position(|other| *other == id)?;
        maker.kernel.share_output(output)
    });
    let shared = shared.into_iter().next();
    shared.is_some_and(|shared| reader.kernel.take_input(input, shared))
}
