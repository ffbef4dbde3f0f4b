//! What the GPU delegate stores of a partition, and how it restores it.

use std::fmt;
use std::path::{Path, PathBuf};

use attache_base::Bytes;
use attache_gpu::{
    Device, Executable, GpuError, Interface, PlanSummary, Precision, Runs, StoredExecutable, Submission, ValueFormat,
    interface,
};
use attache_gpu_ir::Program;
use attache_graph::{Graph, NodeId, Quantized, TensorId};
use serde::{Deserialize, Serialize};

use super::kernel::{GpuPartition, PartitionInfo, failure};
use crate::cache::CacheError;
use crate::{CacheFolder, DelegateError, Partition, PreparedPartition};

/// A folder for stored plans that was asked for, and the functions that use it. Programs that ask for none do not contain
/// these functions.
#[derive(Clone)]
pub(super) struct PlanFolder {
    folder: PathBuf,
    open: fn(&Path) -> Result<CacheFolder, CacheError>,
    pub(super) functions: PlanFunctions,
}

/// The functions that make and restore what is stored.
#[derive(Clone, Copy)]
pub(super) struct PlanFunctions {
    /// Plans and loads a program. Also returns what is stored of it.
    pub(super) make: fn(&dyn Interface, Program, Precision) -> Result<(Executable, Vec<Vec<u8>>), GpuError>,
    /// Returns the first part of what is stored of a partition.
    pub(super) head: fn(Submission, Option<Quantized>) -> Vec<u8>,
    /// Restores a partition from its parts.
    pub(super) restore: fn(&Device, Runs, Partition<'_>, &[Bytes]) -> Result<Box<dyn PreparedPartition>, DelegateError>,
}

impl PlanFolder {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, open: |folder| CacheFolder::open(folder), functions: PlanFunctions { make, head, restore } }
    }

    /// Opens the folder. If it cannot be used, nothing is stored, which is a line in the log.
    pub(super) fn open(&self) -> Option<CacheFolder> {
        (self.open)(&self.folder).inspect_err(|error| tracing::warn!("plans are not stored: {error}")).ok()
    }
}

impl fmt::Debug for PlanFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.folder.fmt(f)
    }
}

impl PartialEq for PlanFolder {
    fn eq(&self, other: &Self) -> bool {
        self.folder == other.folder
    }
}

impl Eq for PlanFolder {}

/// The first part: how the partition was prepared.
#[derive(Serialize, Deserialize)]
struct Head {
    /// Whether it is replayed; otherwise it is encoded.
    is_replayed: bool,
    /// Whether quantized tensors are computed as integers; `None` if there are none.
    is_exact: Option<bool>,
}

fn make(
    interface: &dyn Interface,
    program: Program,
    precision: Precision,
) -> Result<(Executable, Vec<Vec<u8>>), GpuError> {
    let (executable, stored) = Executable::stored(interface, program, precision)?;
    Ok((executable, stored.into_parts().into()))
}

fn head(submission: Submission, quantized: Option<Quantized>) -> Vec<u8> {
    let is_exact = quantized.map(|quantized| quantized == Quantized::Exact);
    let head = Head { is_replayed: submission == Submission::Replay, is_exact };
    postcard::to_allocvec(&head).expect("plain data becomes bytes")
}

fn restore(
    device: &Device,
    runs: Runs,
    partition: Partition<'_>,
    parts: &[Bytes],
) -> Result<Box<dyn PreparedPartition>, DelegateError> {
    let wrong = || DelegateError::new("a stored plan is not one of this partition");
    let (head, parts) = parts.split_first().ok_or_else(wrong)?;
    let parts = <[Bytes; StoredExecutable::PARTS]>::try_from(parts.to_vec()).map_err(|_| wrong())?;
    let (Head { is_replayed, is_exact }, _) = postcard::take_from_bytes(head).map_err(|_| wrong())?;
    let submission = if is_replayed { Submission::Replay } else { Submission::Encoder };
    let quantized = is_exact.map(|is_exact| if is_exact { Quantized::Exact } else { Quantized::View });
    let failed = |error: GpuError| failure("Prepare", &error);
    let interface = interface(device, submission).map_err(failed)?;
    let executable = Executable::restore(&*interface, &StoredExecutable::from_parts(parts)).map_err(failed)?;
    if !fits(executable.summary(), &partition) {
        return Err(wrong());
    }
    let nodes: Vec<NodeId> = partition.nodes.iter().map(|(id, _)| *id).collect();
    let info = PartitionInfo::new(partition.graph, nodes, &partition.inputs, &partition.outputs, quantized);
    let restored = GpuPartition::new(executable, info, runs).map_err(failed)?;
    Ok(Box::new(restored.restored()))
}

/// Whether a plan has the inputs and outputs of a partition, and refers to its nodes alone.
fn fits(summary: &PlanSummary, partition: &Partition<'_>) -> bool {
    let origins = summary.dispatches.iter().flat_map(|dispatch| &dispatch.origins);
    let merged = summary.merged.iter().flat_map(|(origin, others)| others.iter().chain([origin]));
    origins.chain(merged).all(|origin| *origin < partition.nodes.len())
        && are_of(&summary.inputs, &partition.inputs, partition.graph)
        && are_of(&summary.outputs, &partition.outputs, partition.graph)
}

/// Whether values have as many elements as tensors. An input that no program reads has none.
fn are_of(values: &[ValueFormat], tensors: &[TensorId], graph: &Graph) -> bool {
    let elements = |tensor: &TensorId| graph.fact(*tensor).shape.as_ref().map(|shape| shape.elements());
    let is_of =
        |(value, tensor): (&ValueFormat, &TensorId)| value.elements == 0 || Some(value.elements) == elements(tensor);
    values.len() == tensors.len() && values.iter().zip(tensors).all(is_of)
}
