//! What a model may ask for before it is refused: memory, operators, arithmetic, steps of loops.
//!
//! Contract: what exceeds a limit is an error of kind [`ErrorKind::Unsupported`] that names the limit, before the memory
//! is taken or the work done. The memory of devices is theirs to bound, and so is what a file's own bytes take.

use attache_base::{DataType, Shape};
use attache_graph::{Fact, Graph, Node, Op, OpError, TensorId, WorkingMemory};
use attache_model::Place;

use crate::cost::largest;
use crate::{Error, ErrorKind};

/// The most that a model may ask for. The defaults are far above what networks need; who runs files of strangers sets
/// them to what the machine can spare.
///
/// ```no_run
/// # fn main() -> Result<(), attache::Error> {
/// # let model = attache::Model::from_path("model.tflite")?;
/// let limits = attache::Limits { arena_bytes: 256 << 20, multiply_adds: 10_000_000_000, ..Default::default() };
/// let interpreter = attache::Interpreter::builder(&model).limits(limits).build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one tensor that operators read or make.
    pub tensor_bytes: u64,
    /// Bytes of the arena, in which all tensors of the CPU lie that have a shape before a run, and of what the CPU's
    /// operators take besides: packed weights of all of them, and scratch of one.
    pub arena_bytes: u64,
    /// Operators of a subgraph.
    pub operators: usize,
    /// Multiply-adds of all operators in one run, as [`Op::multiply_adds`](crate::graph::Op::multiply_adds) estimates them. Of an operator
    /// that only a run can size, its own at that run.
    pub multiply_adds: u64,
    /// Runs of subgraphs by branches and loops together in one run: two for each step of a loop, a hundred for preparing
    /// a subgraph, which is done once for each change of its inputs' shapes.
    pub loop_steps: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            tensor_bytes: DEFAULT_BYTES,
            arena_bytes: DEFAULT_BYTES,
            operators: 100_000,
            multiply_adds: 1 << 44,
            loop_steps: 1 << 20,
        }
    }
}

// Of 32-bit targets too: there a limit that no memory reaches must not become one that refuses everything.
const _: () = assert!(DEFAULT_BYTES > u32::MAX as u64);

/// The default of limits on bytes.
const DEFAULT_BYTES: u64 = 16 << 30;

/// What to say of something that takes `asked` where the limit of this name is `limit`.
pub(crate) fn exceeded(name: &str, asked: impl std::fmt::Display, limit: impl std::fmt::Display) -> String {
    let flag = name.replace('_', "-");
    format!(
        "it takes {asked}, and the limit {name} is {limit}; InterpreterBuilder::limits raises it, as does the option \
        --limit-{flag} of the command attache"
    )
}

impl Limits {
    /// An error where a subgraph has more operators.
    pub(crate) fn check_operators(&self, subgraph: usize, operators: usize) -> Result<(), Error> {
        if operators <= self.operators {
            return Ok(());
        }
        Err(refuse(Place { subgraph: Some(subgraph), ..Place::default() }, "operators", operators, self.operators))
    }

    /// An error where a subgraph's arena takes more bytes, alone or with what its operators on the CPU take besides: all
    /// packed weights, and the scratch of one.
    pub(crate) fn check_memory<'a>(
        &self,
        graph: &Graph,
        subgraph: usize,
        arena: usize,
        nodes: impl Iterator<Item = &'a Node>,
    ) -> Result<(), Error> {
        let (mut kept, mut scratch, mut largest) = (0u64, 0u64, None);
        for node in nodes {
            let memory = working_memory(graph, node);
            (kept, scratch) = (kept.saturating_add(memory.kept), scratch.max(memory.scratch));
            largest = largest.max(Some((memory.total(), node.origins.first().copied().unwrap_or(0), node.op.name())));
        }
        let (arena, working) = (arena as u64, kept.saturating_add(scratch));
        if arena.saturating_add(working) <= self.arena_bytes {
            return Ok(());
        }
        // Of what is too large the part that is larger is named.
        let operator = largest.filter(|_| working > arena).map(|(_, index, name)| (index, name.to_owned()));
        let place = Place { subgraph: Some(subgraph), operator, tensor: None };
        let asked = match working {
            0 => format!("{arena} bytes"),
            _ => format!("{arena} bytes for tensors, and {working} for packed weights and scratch"),
        };
        Err(refuse(place, "arena_bytes", asked, self.arena_bytes))
    }

    /// An error where an operator of shapes that only a run tells makes too large a tensor, or takes too much arithmetic.
    pub(crate) fn check_node(
        &self,
        op: &dyn Op,
        inputs: &[Option<Fact>],
        outputs: &[(DataType, &Shape)],
    ) -> Result<(), OpError> {
        for (data_type, shape) in outputs {
            let size = shape.checked_elements().and_then(|elements| data_type.byte_size(elements));
            let size = size.map_or(u64::MAX, |size| size as u64);
            if size > self.tensor_bytes {
                return Err(OpError::unsupported(exceeded(
                    "tensor_bytes",
                    format_args!("{size} bytes"),
                    self.tensor_bytes,
                )));
            }
        }
        let facts: Vec<_> = inputs.iter().map(Option::as_ref).collect();
        let inputs: Vec<_> = inputs.iter().map(|fact| fact.as_ref()?.shape.as_ref()).collect();
        let outputs: Vec<_> = outputs.iter().map(|(_, shape)| *shape).collect();
        let asked = estimate(op, &inputs, &outputs);
        if asked > self.multiply_adds {
            return Err(OpError::unsupported(exceeded("multiply_adds", asked, self.multiply_adds)));
        }
        let working = op.working_memory(&facts, &outputs).total();
        if working > self.arena_bytes {
            let asked = format!("{working} bytes for packed weights and scratch");
            return Err(OpError::unsupported(exceeded("arena_bytes", asked, self.arena_bytes)));
        }
        require_memory(working)
    }

    /// An error where a tensor of the graph, or all of its arithmetic, is more. What has no shape yet counts nothing.
    pub(crate) fn check_graph(&self, graph: &Graph, subgraph: usize) -> Result<(), Error> {
        let read = graph.nodes.iter().flat_map(|node| node.inputs.iter().flatten().chain(&node.outputs));
        for id in read.chain(&graph.inputs).chain(&graph.outputs) {
            let size = graph.fact(*id).byte_size().unwrap_or(0) as u64;
            if size > self.tensor_bytes {
                return Err(refuse(
                    place_of(graph, subgraph, *id),
                    "tensor_bytes",
                    format_args!("{size} bytes"),
                    self.tensor_bytes,
                ));
            }
        }
        let total = graph.nodes.iter().filter_map(|node| multiply_adds(graph, node)).fold(0, u64::saturating_add);
        if total > self.multiply_adds {
            let place = Place { subgraph: Some(subgraph), ..Place::default() };
            return Err(refuse(place, "multiply_adds", total, self.multiply_adds));
        }
        Ok(())
    }
}

/// What a node takes on the CPU besides its inputs and outputs, where all shapes are known.
pub(crate) fn working_memory(graph: &Graph, node: &Node) -> WorkingMemory {
    let outputs: Option<Vec<&Shape>> = node.outputs.iter().map(|id| graph.fact(*id).shape.as_ref()).collect();
    outputs.map_or_else(WorkingMemory::default, |outputs| node.op.working_memory(&graph.input_facts(node), &outputs))
}

/// Less than so many bytes are taken without a question.
const LITTLE: u64 = 16 << 20;

/// An error where the system has no room for so many bytes. What kernels take they take without asking: a process that
/// may not have them would end.
pub(crate) fn require_memory(bytes: u64) -> Result<(), OpError> {
    if bytes < LITTLE {
        return Ok(());
    }
    let no_memory = || OpError::unsupported(format!("no memory for {bytes} bytes of packed weights and scratch"));
    let bytes = usize::try_from(bytes).map_err(|_| no_memory())?;
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| no_memory())
}

fn refuse(place: Place, name: &str, asked: impl std::fmt::Display, limit: impl std::fmt::Display) -> Error {
    Error::list(ErrorKind::Unsupported, "", vec![(place, exceeded(name, asked, limit))])
}

/// The place of a tensor.
fn place_of(graph: &Graph, subgraph: usize, id: TensorId) -> Place {
    let tensor = Some((id.index(), graph.tensor(id).name.clone()));
    Place { subgraph: Some(subgraph), operator: None, tensor }
}

/// An estimate of an operator's arithmetic: its own, or one for each element of the largest tensor that it reads or makes.
fn estimate(op: &dyn Op, inputs: &[Option<&Shape>], outputs: &[&Shape]) -> u64 {
    op.multiply_adds(inputs, outputs).unwrap_or_else(|| largest(inputs, outputs))
}

/// An estimate of a node's arithmetic, where all shapes are known.
fn multiply_adds(graph: &Graph, node: &Node) -> Option<u64> {
    let shape = |id: &TensorId| graph.fact(*id).shape.as_ref();
    let inputs: Vec<Option<&Shape>> = node.inputs.iter().map(|id| id.as_ref().and_then(shape)).collect();
    let outputs: Vec<&Shape> = node.outputs.iter().map(shape).collect::<Option<_>>()?;
    Some(estimate(&*node.op, &inputs, &outputs))
}
