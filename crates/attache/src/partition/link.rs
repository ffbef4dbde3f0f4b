//! Links partitions of the same delegate: an output of one partition stays on the device and is read there by
//! a later partition, without a copy through the host, if the kernels support that.

use attache_graph::{Graph, TensorId};

use crate::partition::Unit;
use crate::partition::assign::{Delegated, PlacedStep};

/// Links the kernels of each delegate. Each output that is read only by linked kernels is reported to the
/// kernel that makes it with [`DelegateKernel::keep_on_device`](crate::DelegateKernel::keep_on_device).
pub(crate) fn link(graph: &Graph, steps: &mut [PlacedStep]) {
    let mut linked = Vec::new();
    for later in 1..steps.len() {
        let (before, rest) = steps.split_at_mut(later);
        let Some(PlacedStep::Partition(reader)) = rest.first_mut() else { continue };
        for input in 0..reader.inputs.len() {
            if take(before, reader, input) {
                linked.push((later, reader.inputs[input]));
            }
        }
    }
    let is_kept = |steps: &[PlacedStep], id: TensorId| {
        let reads =
            |(index, unit): (usize, &PlacedStep)| unit.inputs(graph).contains(&id) && !linked.contains(&(index, id));
        linked.iter().any(|(_, other)| *other == id)
            && !graph.outputs.contains(&id)
            && !steps.iter().enumerate().any(reads)
    };
    for index in 0..steps.len() {
        let PlacedStep::Partition(maker) = &steps[index] else { continue };
        let ids = maker.outputs.iter().enumerate();
        let kept: Vec<usize> = ids.filter(|(_, id)| is_kept(steps, **id)).map(|(output, _)| output).collect();
        if let (PlacedStep::Partition(maker), false) = (&mut steps[index], kept.is_empty()) {
            maker.kernel.keep_on_device(&kept);
        }
    }
}

/// Makes the kernel of `reader` take an input directly from the kernel of the same delegate among `before`
/// that makes it. Returns whether both kernels support that.
fn take(before: &mut [PlacedStep], reader: &mut Delegated, input: usize) -> bool {
    let id = reader.inputs[input];
    let makers = before.iter_mut().filter_map(|step| match step {
        PlacedStep::Partition(partition) if partition.delegate == reader.delegate => Some(partition),
        PlacedStep::Partition(_) | PlacedStep::Node(_) => None,
    });
    let shared = makers.filter_map(|maker| {
        let output = maker.outputs.iter().position(|other| *other == id)?;
        maker.kernel.share_output(output)
    });
    let shared = shared.into_iter().next();
    shared.is_some_and(|shared| reader.kernel.take_input(input, shared))
}
