//! Limits on what a model may use: memory, operators, arithmetic and loop steps.
//!
//! Contract: exceeding a limit is an error of kind [`ErrorKind::LimitExceeded`] that names the limit. It is reported
//! before the memory is allocated or the work is done. Device memory and the size of the model file are not limited
//! here.

use attache_base::{DataType, Shape, strings};
use attache_graph::{Fact, Graph, Handle, Node, Op, OpError, TensorId, WorkingMemory};
use attache_model::ModelLocation;

use crate::cost::largest;
use crate::{Error, ErrorKind};

/// Upper limits on what a model may use. The defaults are far above what networks need. Applications that run untrusted
/// files should lower them to what the machine can spare.
///
/// ```no_run
/// # fn main() -> Result<(), attache::Error> {
/// # let model = attache::Model::from_path("model.tflite")?;
/// let limits = attache::Limits::default().arena_bytes(256 << 20).multiply_adds(10_000_000_000);
/// let interpreter = attache::Interpreter::builder(&model).limits(limits).build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum size in bytes of one tensor that operators read or write.
    pub tensor_bytes: u64,
    /// Maximum size in bytes of the CPU's memory: the arena, which contains all CPU tensors whose shapes are known
    /// before a run, plus the packed weights of all CPU operators and the scratch memory of the one that needs most.
    pub arena_bytes: u64,
    /// Maximum number of operators of a subgraph.
    pub operators: usize,
    /// Maximum number of multiply-adds of all operators in one run, as estimated by
    /// [`Op::multiply_adds`](crate::graph::Op::multiply_adds). An operator whose shapes are known only at run time is
    /// checked on its own, during the run.
    pub multiply_adds: u64,
    /// Maximum number of subgraph runs by branches and loops in one run of the interpreter. Each loop step counts as
    /// two. Preparing a subgraph counts as a hundred and happens again whenever the shapes of its inputs change.
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

// The default must not wrap to zero on 32-bit targets, which would reject every model.
const _: () = assert!(DEFAULT_BYTES > u32::MAX as u64);

/// Default of [`Limits::tensor_bytes`] and [`Limits::arena_bytes`]: 16 GiB.
const DEFAULT_BYTES: u64 = 16 << 30;

/// Returns the error message for something that needs `asked` when the limit with field name `name` is
/// `limit`.
pub(crate) fn exceeded(name: &str, asked: impl std::fmt::Display, limit: impl std::fmt::Display) -> String {
    let flag = name.replace('_', "-");
    format!(
        "it takes {asked}, and the limit {name} is {limit}; InterpreterBuilder::limits raises it, as does the option \
        --limit-{flag} of the command attache"
    )
}

impl Limits {
    /// Sets [the field](#structfield.tensor_bytes) `tensor_bytes`.
    #[must_use]
    pub fn tensor_bytes(self, tensor_bytes: u64) -> Self {
        Self { tensor_bytes, ..self }
    }

    /// Sets [the field](#structfield.arena_bytes) `arena_bytes`.
    #[must_use]
    pub fn arena_bytes(self, arena_bytes: u64) -> Self {
        Self { arena_bytes, ..self }
    }

    /// Sets [the field](#structfield.operators) `operators`.
    #[must_use]
    pub fn operators(self, operators: usize) -> Self {
        Self { operators, ..self }
    }

    /// Sets [the field](#structfield.multiply_adds) `multiply_adds`.
    #[must_use]
    pub fn multiply_adds(self, multiply_adds: u64) -> Self {
        Self { multiply_adds, ..self }
    }

    /// Sets [the field](#structfield.loop_steps) `loop_steps`.
    #[must_use]
    pub fn loop_steps(self, loop_steps: u64) -> Self {
        Self { loop_steps, ..self }
    }

    /// Returns an error if the subgraph with index `subgraph` has more operators than allowed.
    pub(crate) fn check_operators(&self, subgraph: usize, operators: usize) -> Result<(), Error> {
        if operators <= self.operators {
            return Ok(());
        }
        Err(over_limit(
            ModelLocation { subgraph: Some(subgraph), ..ModelLocation::default() },
            "operators",
            operators,
            self.operators,
        ))
    }

    /// Returns an error if the CPU memory of a subgraph exceeds [`Limits::arena_bytes`]: `arena` bytes for
    /// tensors, plus the packed weights of all CPU operators `nodes`, plus the largest scratch memory of one
    /// of them. `keeps_own` says whether a node keeps weights of its own, not those of one before.
    pub(crate) fn check_memory<'a>(
        &self,
        graph: &Graph,
        subgraph: usize,
        arena: usize,
        nodes: impl Iterator<Item = &'a Node>,
        mut keeps_own: impl FnMut(&Node) -> bool,
    ) -> Result<(), Error> {
        let (mut kept, mut scratch, mut largest) = (0u64, 0u64, None);
        for node in nodes {
            let memory = working_memory(graph, node);
            kept = kept.saturating_add(if memory.kept > 0 && keeps_own(node) { memory.kept } else { 0 });
            scratch = scratch.max(memory.scratch);
            largest =
                largest.max(Some((memory.total(), node.place(subgraph).unwrap_or((subgraph, 0)), node.op.name())));
        }
        let (arena, working) = (arena as u64, kept.saturating_add(scratch));
        if arena.saturating_add(working) <= self.arena_bytes {
            return Ok(());
        }
        // The error names the operator only if working memory is larger than the arena.
        let largest = largest.filter(|_| working > arena);
        let subgraph = largest.map_or(subgraph, |(_, (subgraph, _), _)| subgraph);
        let operator = largest.map(|(_, (_, index), name)| (index, name.to_owned()));
        let location = ModelLocation { subgraph: Some(subgraph), operator, tensor: None };
        let asked = match working {
            0 => format!("{arena} bytes"),
            _ => format!("{arena} bytes for tensors, and {working} for packed weights and scratch"),
        };
        Err(over_limit(location, "arena_bytes", asked, self.arena_bytes))
    }

    /// Returns an error if one run of an operator makes too large a tensor, needs too many multiply-adds or
    /// needs too much working memory. This is for operators whose shapes are known only at run time; `inputs`
    /// and `outputs` describe that run.
    pub(crate) fn check_node(
        &self,
        op: &dyn Op,
        inputs: &[Option<Fact>],
        outputs: &[(DataType, &Shape)],
    ) -> Result<(), OpError> {
        for (data_type, shape) in outputs {
            let size =
                shape.checked_elements().and_then(|elements| least_bytes(*data_type, elements)).unwrap_or(usize::MAX);
            self.check_size(size)?;
        }
        let facts: Vec<_> = inputs.iter().map(Option::as_ref).collect();
        let inputs: Vec<_> = inputs.iter().map(|fact| fact.as_ref()?.shape.as_ref()).collect();
        let outputs: Vec<_> = outputs.iter().map(|(_, shape)| *shape).collect();
        let asked = estimate(op, &inputs, &outputs);
        if asked > self.multiply_adds {
            return Err(OpError::limit_exceeded(exceeded("multiply_adds", asked, self.multiply_adds)));
        }
        let working = op.working_memory(&facts, &outputs).total();
        if working > self.arena_bytes {
            let asked = format!("{working} bytes for packed weights and scratch");
            return Err(OpError::limit_exceeded(exceeded("arena_bytes", asked, self.arena_bytes)));
        }
        require_memory(working)
    }

    /// Returns an error if a tensor of this size, which is known only at run time, is too large.
    pub(crate) fn check_size(&self, size: usize) -> Result<(), OpError> {
        if size as u64 <= self.tensor_bytes {
            return Ok(());
        }
        Err(OpError::limit_exceeded(exceeded("tensor_bytes", format_args!("{size} bytes"), self.tensor_bytes)))
    }

    /// Returns an error if a tensor of the graph exceeds the limit on its size, or if all nodes together
    /// exceed the limit on multiply-adds. Tensors and nodes with unknown shapes count as zero.
    pub(crate) fn check_graph(&self, graph: &Graph, subgraph: usize) -> Result<(), Error> {
        let read = graph.nodes.iter().flat_map(|node| node.inputs.iter().flatten().chain(&node.outputs));
        for id in read.chain(&graph.inputs).chain(&graph.outputs) {
            let Fact { data_type, shape, .. } = graph.fact(*id);
            let elements = shape.as_ref().and_then(Shape::checked_elements);
            let size = elements.and_then(|elements| least_bytes(*data_type, elements));
            let size = match size {
                None if *data_type == DataType::String && elements.is_some() => u64::MAX,
                size => size.unwrap_or(0) as u64,
            };
            if size > self.tensor_bytes {
                return Err(over_limit(
                    tensor_location(graph, subgraph, *id),
                    "tensor_bytes",
                    format_args!("{size} bytes"),
                    self.tensor_bytes,
                ));
            }
        }
        let total = graph.nodes.iter().filter_map(|node| multiply_adds(graph, node)).fold(0, u64::saturating_add);
        if total > self.multiply_adds {
            let location = ModelLocation { subgraph: Some(subgraph), ..ModelLocation::default() };
            return Err(over_limit(location, "multiply_adds", total, self.multiply_adds));
        }
        Ok(())
    }
}

/// Returns the number of bytes that a tensor takes, or for strings the least number; `None` if elements have no size, or
/// if it overflows.
fn least_bytes(data_type: DataType, elements: usize) -> Option<usize> {
    match data_type {
        // Offsets of strings have 32 bits with a sign.
        DataType::String => Some(strings::least_size(elements)).filter(|size| *size <= i32::MAX as usize),
        DataType::Resource => elements.checked_mul(Handle::SIZE),
        _ => data_type.byte_size(elements),
    }
}

/// Returns the CPU memory in bytes that a node needs besides its inputs and outputs: packed weights and
/// scratch. Both are zero if the shape of an output is unknown.
pub(crate) fn working_memory(graph: &Graph, node: &Node) -> WorkingMemory {
    let outputs: Option<Vec<&Shape>> = node.outputs.iter().map(|id| graph.fact(*id).shape.as_ref()).collect();
    outputs.map_or_else(WorkingMemory::default, |outputs| node.op.working_memory(&graph.input_facts(node), &outputs))
}

/// Number of bytes below which [`require_memory`] does not test whether memory is available.
const LITTLE: u64 = 1 << 20;

/// Returns an error if the system cannot allocate `bytes` bytes. Kernels allocate infallibly, so a failed
/// allocation in a kernel would abort the process.
pub(crate) fn require_memory(bytes: u64) -> Result<(), OpError> {
    if bytes < LITTLE {
        return Ok(());
    }
    let no_memory = || {
        OpError::out_of_memory(format!(
            "no memory for {bytes} bytes of packed weights and scratch; take a smaller model or input shape"
        ))
    };
    let bytes = usize::try_from(bytes).map_err(|_| no_memory())?;
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| no_memory())
}

fn over_limit(
    location: ModelLocation,
    name: &str,
    asked: impl std::fmt::Display,
    limit: impl std::fmt::Display,
) -> Error {
    Error::list(ErrorKind::LimitExceeded, "", vec![(location, exceeded(name, asked, limit))])
}

/// Returns the location of a tensor in the model, for an error message.
fn tensor_location(graph: &Graph, subgraph: usize, id: TensorId) -> ModelLocation {
    let tensor = Some((id.index(), graph.tensor(id).name.clone()));
    ModelLocation { subgraph: Some(subgraph), operator: None, tensor }
}

/// Estimates the multiply-adds of one run of an operator: the operator's own estimate, or else one per
/// element of the largest tensor that it reads or writes.
fn estimate(op: &dyn Op, inputs: &[Option<&Shape>], outputs: &[&Shape]) -> u64 {
    op.multiply_adds(inputs, outputs).unwrap_or_else(|| largest(inputs, outputs))
}

/// Estimates the multiply-adds of one run of a node; `None` if the shape of an output is unknown.
pub(crate) fn multiply_adds(graph: &Graph, node: &Node) -> Option<u64> {
    let shape = |id: &TensorId| graph.fact(*id).shape.as_ref();
    let inputs: Vec<Option<&Shape>> = node.inputs.iter().map(|id| id.as_ref().and_then(shape)).collect();
    let outputs: Vec<&Shape> = node.outputs.iter().map(shape).collect::<Option<_>>()?;
    Some(estimate(&*node.op, &inputs, &outputs))
}
