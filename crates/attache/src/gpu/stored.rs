//! What the GPU delegate stores of a partition, and how it restores it.

use std::fmt;
use std::path::{Path, PathBuf};

use attache_base::Bytes;
use attache_gpu::{
    Device, Executable, GpuError, Interface, PlanSummary, Precision, Runs, StoredExecutable, Submission, ValueFormat,
    interface,
};
use attache_gpu_ir::Program;
use attache_graph::{Graph, NodeId, TensorId};
use serde::{Deserialize, Serialize};

use super::exchange;
use super::failure::failure;
use super::kernel::{Forms, GpuPartition, PartitionInfo};
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

/// What is stored of a partition.
pub(super) type Parts = Vec<Vec<u8>>;

type Make = fn(&dyn Interface, Program, Precision, Option<Runs>) -> Result<(Executable, Parts), GpuError>;
type Restore = fn(&Device, Runs, Partition<'_>, &[Bytes]) -> Result<Box<dyn PreparedPartition>, DelegateError>;

/// The functions that make and restore what is stored.
#[derive(Clone, Copy)]
pub(super) struct PlanFunctions {
    /// Plans and loads a program. Also returns what is stored of it.
    pub(super) make: Make,
    /// Returns the first part of what is stored of a partition.
    pub(super) head: fn(Submission, Forms) -> Vec<u8>,
    /// Restores a partition from its parts.
    pub(super) restore: Restore,
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
    /// How quantized tensors are computed.
    forms: Forms,
}

fn make(
    interface: &dyn Interface,
    program: Program,
    precision: Precision,
    first: Option<Runs>,
) -> Result<(Executable, Parts), GpuError> {
    let (executable, stored) = Executable::stored(interface, program, precision, first)?;
    Ok((executable, stored.into_parts().into()))
}

fn head(submission: Submission, forms: Forms) -> Vec<u8> {
    let head = Head { is_replayed: submission == Submission::Replay, forms };
    postcard::to_allocvec(&head).expect("plain data becomes bytes")
}

fn restore(
    device: &Device,
    runs: Runs,
    partition: Partition<'_>,
    stored: &[Bytes],
) -> Result<Box<dyn PreparedPartition>, DelegateError> {
    let wrong = || DelegateError::new("a stored plan is not one of this partition");
    let (head, parts) = stored.split_first().ok_or_else(wrong)?;
    let parts = <[Bytes; StoredExecutable::PARTS]>::try_from(parts.to_vec()).map_err(|_| wrong())?;
    let (Head { is_replayed, forms }, _) = postcard::take_from_bytes(head).map_err(|_| wrong())?;
    let submission = if is_replayed { Submission::Replay } else { Submission::Encoder };
    let failed = |error: GpuError| failure("Prepare", &error);
    let nodes: Vec<NodeId> = partition.nodes.iter().map(|(id, _)| *id).collect();
    let info = PartitionInfo::new(partition.graph, nodes, &partition.inputs, &partition.outputs, forms);
    let interface = interface(device, submission).map_err(failed)?;
    let (stored_executable, first) = (StoredExecutable::from_parts(parts), Some(info.runs(runs)));
    let is_expected = |summary: &PlanSummary| fits(summary, &partition);
    let executable = Executable::restore(&*interface, &stored_executable, is_expected, first).map_err(failed)?;
    let restored = GpuPartition::new(executable, info, runs).map_err(failed)?;
    Ok(Box::new(restored.restored(stored)))
}

/// Whether a plan has the inputs and outputs of a partition, and refers to its nodes alone.
fn fits(summary: &PlanSummary, partition: &Partition<'_>) -> bool {
    let origins = summary.dispatches.iter().flat_map(|dispatch| &dispatch.origins);
    let merged = summary.merged.iter().flat_map(|(origin, others)| others.iter().chain([origin]));
    origins.chain(merged).all(|origin| *origin < partition.nodes.len())
        && are_of(&summary.inputs, &partition.inputs, partition.graph)
        && are_of(&summary.outputs, &partition.outputs, partition.graph)
}

/// Whether values have as many elements as tensors, or as the parts of complex ones. An input that no program reads has none.
fn are_of(values: &[ValueFormat], tensors: &[TensorId], graph: &Graph) -> bool {
    let elements = |tensor: &TensorId| {
        let fact = graph.fact(*tensor);
        fact.shape.as_ref()?.checked_elements()?.checked_mul(exchange::parts(fact.data_type).1)
    };
    let is_of =
        |(value, tensor): (&ValueFormat, &TensorId)| value.elements == 0 || Some(value.elements) == elements(tensor);
    values.len() == tensors.len() && values.iter().zip(tensors).all(is_of)
}

#[cfg(test)]
mod tests {
    use attache_model::Model;

    use super::*;
    use crate::cache::{Contents, Entry};
    use crate::{GpuDelegate, GpuDelegateOptions, Interpreter};

    /// Returns the bytes of the outputs of a run, and the number of restored partitions.
    fn outputs(model: &Model, folder: &Path) -> (Vec<u8>, usize) {
        let options = GpuDelegateOptions::default().software(true).validation(true).cache(folder);
        let delegate = GpuDelegate::new(options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on");
        let mut interpreter = Interpreter::builder(model).threads(1).delegate(delegate).build().unwrap();
        interpreter.input_bytes_mut(0).unwrap().fill(0x3c);
        interpreter.invoke().unwrap();
        (interpreter.read_bytes(0).unwrap().to_vec(), interpreter.report().restored_partitions)
    }

    /// Replaces the parts of the only entry of a folder, with right checksums.
    fn rewrite(folder: &Path, change: impl FnOnce(&mut Vec<Vec<u8>>)) {
        let cache = CacheFolder::open(folder).unwrap();
        let entry = cache.entries().unwrap().remove(0);
        let path = folder.join(&entry.file);
        let (key, read) = Entry::with_key(Bytes::from_vec(std::fs::read(&path).unwrap())).unwrap();
        let mut sections: Vec<Vec<u8>> = (0..).map_while(|index| Some(read.section(index)?.to_vec())).collect();
        change(&mut sections);
        let sections: Vec<&[u8]> = sections.iter().map(Vec::as_slice).collect();
        let mut bytes = Vec::new();
        Contents::new(read.description(), &sections).write_as(key, &mut bytes).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// Every byte of the answer and of the plan is changed, and the checksums are made right: nothing panics, hangs or
    /// reaches outside of a buffer, and a run gives outputs.
    #[test]
    fn plans_with_right_checksums_are_not_trusted() {
        let model = crate::zoo::model("lstm_128").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (expected, _) = outputs(&model, folder.path());
        assert_eq!(outputs(&model, folder.path()), (expected.clone(), 1));
        let file = CacheFolder::open(folder.path()).unwrap().entries().unwrap().remove(0).file;
        let whole = std::fs::read(folder.path().join(&file)).unwrap();
        let rounds = if std::env::var_os("ATTACHE_DEEP").is_some() { 2000 } else { 40 };
        let mut restored = 0;
        for round in 0..rounds {
            std::fs::write(folder.path().join(&file), &whole).unwrap();
            rewrite(folder.path(), |sections| {
                // The answer, the delegate's head, or the plan without shaders, which rest on the checksum.
                let section = &mut sections[[1, 2, 3, 3, 3, 3][round % 6]];
                let at = round.wrapping_mul(2_654_435_761) % section.len();
                section[at] ^= 1 << (round / 6 % 8);
            });
            restored += outputs(&model, folder.path()).1;
        }
        assert!(restored < rounds, "most changes are found");
        std::fs::write(folder.path().join(&file), &whole).unwrap();
        rewrite(folder.path(), |sections| sections[2] = head(Submission::Encoder, Forms::default()));
        assert_eq!(outputs(&model, folder.path()), (expected.clone(), 0), "wgpu does not run what is made for replay");
        std::fs::write(folder.path().join(&file), &whole).unwrap();
        rewrite(folder.path(), |sections| sections.last_mut().unwrap().iter_mut().for_each(|byte| *byte ^= 0x10));
        let (other, restored) = outputs(&model, folder.path());
        assert!(restored == 1 && other != expected, "weights rest on the checksum");
    }
}
