//! Links partitions of the same delegate: an output of one partition stays on the device and is read there by
//! a later partition, without a copy through the host, if the kernels support that.

use attache_graph::{Graph, TensorId};

use crate::partition::assign::Delegated;

/// Links the kernels of each delegate. `partitions` are all partitions, in execution order. Each output that is read
/// only by linked kernels is reported to the kernel that makes it with
/// [`DelegateKernel::keep_on_device`](crate::DelegateKernel::keep_on_device). `on_host` says for each tensor whether a
/// node on the CPU reads it or it is an output of the graph. Variables are read from the host, where they also lie
/// between runs and where nodes on the CPU may write them.
pub(crate) fn link(graph: &Graph, partitions: &mut [&mut Delegated], on_host: &[bool]) {
    let mut linked = Vec::new();
    for later in 1..partitions.len() {
        let (before, rest) = partitions.split_at_mut(later);
        let Some(reader) = rest.first_mut() else { continue };
        for input in 0..reader.inputs.len() {
            let is_variable = graph.fact(reader.inputs[input]).is_variable;
            if !is_variable && take(before, reader, input) {
                linked.push((later, reader.inputs[input]));
            }
        }
    }
    let is_kept = |partitions: &[&mut Delegated], id: TensorId| {
        let reads = |(index, partition): (usize, &&mut Delegated)| {
            partition.inputs.contains(&id) && !linked.contains(&(index, id))
        };
        linked.iter().any(|(_, other)| *other == id)
            && !on_host[id.index()]
            && !partitions.iter().enumerate().any(reads)
    };
    for index in 0..partitions.len() {
        let ids = partitions[index].outputs.iter().enumerate();
        let kept: Vec<usize> = ids.filter(|(_, id)| is_kept(partitions, **id)).map(|(output, _)| output).collect();
        if !kept.is_empty() {
            partitions[index].kernel.keep_on_device(&kept);
        }
    }
}

/// Makes the kernel of `reader` take an input directly from the kernel of the same delegate among `before`
/// that makes it. Returns whether both kernels support that.
fn take(before: &mut [&mut Delegated], reader: &mut Delegated, input: usize) -> bool {
    let id = reader.inputs[input];
    let makers = before.iter_mut().filter(|partition| partition.delegate == reader.delegate);
    let shared = makers.filter_map(|maker| {
        let output = maker.outputs.iter().position(|other| *other == id)?;
        maker.kernel.share_output(output)
    });
    let shared = shared.into_iter().next();
    shared.is_some_and(|shared| reader.kernel.take_input(input, shared))
}
