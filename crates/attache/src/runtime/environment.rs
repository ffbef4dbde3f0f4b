//! The [`Environment`] of an interpreter: what its subgraphs share, which is the threads, the resource variables and
//! the prepared subgraphs that operators call.
//!
//! Contract: a called subgraph is prepared when it first runs, and again only when its inputs have other
//! types or shapes. Every run terminates for any model file: a subgraph cannot run recursively, and the
//! number of subgraph runs is limited.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use attache_base::{IntegerRounding, Parallel, Pools, Serial, Shape, SharedBuffer, copy};
use attache_graph::{Graph, Handle, HashTable, OpError, PassedTensor, TensorId, TensorRef};

use super::cancellation::StartedRun;
use super::executor::Executor;
use super::host::Subgraphs;
use super::observer::Observing;
use super::options::{Options, default_threads};
use super::plans::{Key, Plans};
use super::prepare::{MOST_PANICS, PrepareMode};
use crate::limits::exceeded;
use crate::{Error, ErrorKind};

/// Maximum number of subgraphs that are running at once, each called by the one before it, including the
/// interpreter's own.
const MOST_NESTED: usize = 64;
/// Number of subgraph runs as which preparing a subgraph counts against
/// [`Limits::loop_steps`](crate::Limits::loop_steps).
const PREPARATION: u64 = 100;
/// Maximum number of threads of an interpreter, because the stack of each thread takes memory.
const MAX_THREADS: usize = 256;

/// State shared by the subgraphs of one interpreter.
pub(crate) struct Environment {
    plans: Arc<Plans>,
    /// The threads that are lent to the interpreter's runs, from the first one on the CPU on.
    threads: Option<Arc<Pools>>,
    /// How many threads there are, if the interpreter does not take the number of its options.
    thread_count: Option<usize>,
    /// The run that is under way, or the last one; `None` before the first one.
    run: Option<StartedRun>,
    /// Who is told about the parts of runs.
    pub(crate) observing: Observing,
    /// The executors of called subgraphs, by the index of the subgraph; `None` for one that has not been prepared, and
    /// while one is running.
    subgraphs: Vec<Option<Box<Executor>>>,
    /// Indices of the subgraphs that CALL_ONCE has run.
    done: BTreeSet<usize>,
    resources: Resources,
    /// Indices of the subgraphs that are running, outermost first; the first one is the interpreter's own.
    active: Vec<usize>,
    /// Number of runs of called subgraphs so far in this run of the interpreter, where a preparation counts
    /// as [`PREPARATION`] runs.
    steps: u64,
    /// The error of a called subgraph, with its location in the model, until the interpreter takes it. The
    /// operator that called the subgraph gets an [`OpError`] instead.
    failure: Option<Error>,
    /// Messages of delegates that panicked during the preparation of called subgraphs, or in the runs of
    /// executors that have been replaced since. At most [`MOST_PANICS`].
    panics: BTreeSet<String>,
    /// Bytes of tensors that were copied so far to pass them on.
    copied: u64,
}

/// Resource variables and hash tables. A variable's handle is its index in `values`, that of a table its number with the
/// bit [`TABLE`].
#[derive(Default)]
struct Resources {
    /// The handle of each variable, by container and name.
    handles: BTreeMap<String, BTreeMap<String, usize>>,
    values: Vec<Option<PassedTensor>>,
    /// The hash tables by their numbers; `None` before a table is filled.
    tables: Tables,
}

impl Resources {
    /// Returns the place of a variable's value.
    fn slot(&mut self, handle: Handle) -> Result<&mut Option<PassedTensor>, OpError> {
        let slot = usize::try_from(handle.0).ok().and_then(|index| self.values.get_mut(index));
        slot.ok_or_else(no_variable)
    }
}

/// Hash tables by their numbers.
type Tables = BTreeMap<u32, Option<Arc<HashTable>>>;

/// The bit by which handles of hash tables differ from those of variables.
const TABLE: u64 = 1 << 63;

/// A copy of the state that a run leaves for the next one: resource variables, variable tensors of called
/// subgraphs, and which subgraphs CALL_ONCE has run.
pub(crate) struct Variables {
    resources: Vec<Option<PassedTensor>>,
    tables: Tables,
    tensors: Vec<(usize, Vec<Vec<u8>>)>,
    done: BTreeSet<usize>,
}

impl Environment {
    /// Creates the environment of an interpreter.
    pub(crate) fn new(plans: Arc<Plans>) -> Self {
        let subgraphs = plans.model.subgraphs().iter().map(|_| None).collect();
        Self {
            plans,
            threads: None,
            thread_count: None,
            run: None,
            observing: Observing::default(),
            subgraphs,
            done: BTreeSet::new(),
            resources: Resources::default(),
            active: Vec::new(),
            steps: 0,
            failure: None,
            panics: BTreeSet::new(),
            copied: 0,
        }
    }

    /// Sets the subgraph that is run next, and the run of the interpreter; `None` where nothing can cancel it.
    pub(crate) fn set_running(&mut self, subgraph: usize, run: Option<StartedRun>) {
        self.active = vec![subgraph];
        self.run = run;
    }

    /// Sets the number of threads from the next run on; `None` for the default of builders.
    pub(crate) fn set_threads(&mut self, count: Option<usize>) {
        (self.thread_count, self.threads) = (Some(count.map_or_else(default_threads, |count| count.max(1))), None);
    }

    /// Whether something can cancel the run.
    pub(crate) fn is_cancellable(&self) -> bool {
        self.run.as_ref().is_some_and(StartedRun::is_cancellable)
    }

    /// Returns an error if the run that is under way was cancelled, or, where `asks` is set, if the function that it asks says
    /// that it is to end.
    pub(crate) fn check_run(&self, asks: bool) -> Result<(), Error> {
        match &self.run {
            // There is nothing to ask in the smallest libraries.
            _ if asks || cfg!(attache_small) => Subgraphs::check_cancelled(self),
            Some(run) => run.check(),
            None => Ok(()),
        }
    }

    /// Returns the prepare mode for the interpreter's own subgraph, which depends on whether a resource
    /// variable has a value.
    pub(crate) fn prepare_mode(&self) -> PrepareMode {
        let is_empty = self.resources.values.iter().all(Option::is_none);
        if is_empty { PrepareMode::First } else { PrepareMode::Later }
    }

    /// Gives resource variables and hash tables the state before the first run: they have no value, and CALL_ONCE has run
    /// no subgraph.
    pub(crate) fn reset_resources(&mut self) {
        self.resources.values.fill(None);
        self.resources.tables.values_mut().for_each(|table| *table = None);
        self.done.clear();
    }

    /// Gives the variable tensors of called subgraphs their initial values.
    pub(crate) fn reset_variable_tensors(&mut self) {
        self.subgraphs.iter_mut().flatten().for_each(|executor| executor.reset_variables());
    }

    /// Returns a copy of the current state of all variables.
    pub(crate) fn variables(&self) -> Variables {
        let subgraphs = self.subgraphs.iter().enumerate();
        let tensors = subgraphs.filter_map(|(index, executor)| Some((index, executor.as_ref()?.variables())));
        let Resources { values, tables, .. } = &self.resources;
        let (resources, tables) = (values.clone(), tables.clone());
        Variables { resources, tables, tensors: tensors.collect(), done: self.done.clone() }
    }

    /// Restores the state that [`Environment::variables`] returned. Resource variables created since then
    /// have no value, and variable tensors of subgraphs prepared since then have their initial values.
    pub(crate) fn set_variables(&mut self, variables: Variables) {
        let Variables { mut resources, tables, tensors, done } = variables;
        resources.resize(self.resources.values.len(), None);
        (self.resources.values, self.done) = (resources, done);
        for (number, table) in &mut self.resources.tables {
            *table = tables.get(number).cloned().flatten();
        }
        for (index, executor) in self.subgraphs.iter_mut().enumerate() {
            let Some(executor) = executor else { continue };
            match tensors.iter().find(|(of, _)| *of == index) {
                Some((_, values)) => executor.set_variables(values),
                None => executor.reset_variables(),
            }
        }
    }

    /// Returns the messages of delegates that panicked in called subgraphs.
    pub(crate) fn panics(&self) -> Vec<String> {
        let now = self.subgraphs.iter().flatten().flat_map(|executor| executor.panics());
        self.panics.iter().cloned().chain(now).collect()
    }

    /// Returns the bytes of tensors that were copied so far to pass them on.
    pub(crate) fn copied(&self) -> u64 {
        self.copied
    }

    fn note_panics(&mut self, panics: Vec<String>) {
        let room = MOST_PANICS.saturating_sub(self.panics.len());
        self.panics.extend(panics.into_iter().take(room));
    }

    /// Prepares all called subgraphs again with `plans`, which have no delegates, and all later ones too. If one
    /// cannot be prepared, returns its error and changes nothing.
    pub(crate) fn leave_delegates(&mut self, plans: Arc<Plans>) -> Result<(), Error> {
        let mut made: Vec<_> = self.subgraphs.iter().map(|_| None).collect();
        for (index, executor) in self.subgraphs.iter().enumerate() {
            let Some(executor) = executor else { continue };
            let shapes = executor.graph().inputs.iter().map(|id| executor.graph().fact(*id).shape.clone()).collect();
            let mut other = executor_of(&plans, index, shapes)?;
            other.keep_values_of(executor);
            made[index] = Some(Box::new(other));
        }
        self.note_panics(self.subgraphs.iter().flatten().flat_map(|executor| executor.panics()).collect());
        (self.subgraphs, self.plans) = (made, plans);
        Ok(())
    }

    fn count(&mut self, steps: u64) -> Result<(), OpError> {
        self.steps = self.steps.saturating_add(steps);
        let limit = self.plans.options.limits.loop_steps;
        if self.steps <= limit {
            return Ok(());
        }
        Err(OpError::limit_exceeded(exceeded("loop_steps", format_args!("{} steps", self.steps), limit)))
    }

    /// Takes the executor of a subgraph, prepared for inputs of these types and shapes, out of the
    /// environment. The caller puts it back after the run.
    fn prepared(&mut self, subgraph: usize, inputs: &[PassedTensor]) -> Result<Box<Executor>, OpError> {
        let known = self.subgraphs.get_mut(subgraph).and_then(Option::take);
        if let Some(executor) = known {
            if fits(executor.graph(), inputs) {
                return Ok(executor);
            }
            return match self.prepare(subgraph, inputs) {
                Ok(mut made) => {
                    made.keep_values_of(&executor);
                    self.note_panics(executor.panics());
                    Ok(made)
                }
                Err(error) => {
                    self.subgraphs[subgraph] = Some(executor);
                    Err(error)
                }
            };
        }
        self.prepare(subgraph, inputs)
    }

    fn prepare(&mut self, subgraph: usize, inputs: &[PassedTensor]) -> Result<Box<Executor>, OpError> {
        self.count(PREPARATION)?;
        let subgraphs = self.plans.model.subgraphs();
        if subgraphs.get(subgraph).is_none_or(|subgraph| subgraph.inputs.len() != inputs.len()) {
            return Err(OpError::invalid(format!("there is no subgraph {subgraph} of {} inputs", inputs.len())));
        }
        let shapes: Vec<_> = inputs.iter().map(|input| Some(input.shape.clone())).collect();
        let executor = executor_of(&self.plans, subgraph, shapes).map_err(|error| self.fail(error))?;
        self.note_panics(executor.prepared().report.panics.clone());
        if !fits(executor.graph(), inputs) {
            return Err(OpError::invalid(format!("the inputs are not of the types of subgraph {subgraph}")));
        }
        Ok(Box::new(executor))
    }

    /// Stores the error for the interpreter and returns an operator error with the same text for the callers
    /// of the subgraph.
    fn fail(&mut self, error: Error) -> OpError {
        let text = error.to_string();
        let result = match error.kind() {
            ErrorKind::Model => OpError::invalid(text),
            ErrorKind::LimitExceeded => OpError::limit_exceeded(text),
            ErrorKind::OutOfMemory => OpError::out_of_memory(text),
            _ => OpError::unsupported(text),
        };
        self.failure = Some(error);
        result
    }
}

impl Subgraphs for Environment {
    fn threads(&mut self) -> Arc<dyn Parallel + Send + Sync> {
        let count = self.thread_count.unwrap_or(self.plans.options.threads).min(MAX_THREADS);
        if count <= 1 {
            return Arc::new(Serial);
        }
        let pools = self.threads.get_or_insert_with(|| Pools::shared(count, self.plans.options.idle));
        Arc::new(pools.lend())
    }

    fn rounding(&self) -> IntegerRounding {
        self.plans.options.rounding
    }

    fn start(&mut self) {
        self.steps = 0;
        self.failure = None;
    }

    fn check_cancelled(&self) -> Result<(), Error> {
        self.run.as_ref().map_or(Ok(()), StartedRun::ask)
    }

    #[cfg(not(attache_small))]
    fn watch(&self, subgraph: usize) -> super::observer::Watch {
        self.observing.watch(subgraph)
    }

    fn failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    fn call(
        &mut self,
        subgraph: usize,
        inputs: Vec<PassedTensor>,
        parallel: &dyn Parallel,
    ) -> Result<Vec<PassedTensor>, OpError> {
        if self.active.contains(&subgraph) {
            return Err(OpError::invalid(format!("it runs subgraph {subgraph}, which is running already")));
        }
        if self.active.len() == MOST_NESTED {
            return Err(OpError::unsupported(format!("more than {MOST_NESTED} subgraphs that run each other")));
        }
        self.count(1)?;
        let mut executor = self.prepared(subgraph, &inputs)?;
        self.active.push(subgraph);
        let begun = self.observing.watch(subgraph).call();
        let result = executor.call(inputs, parallel, self);
        drop(begun);
        self.active.pop();
        self.subgraphs[subgraph] = Some(executor);
        result.map_err(|error| self.fail(error))
    }

    fn call_once(&mut self, subgraph: usize, parallel: &dyn Parallel) -> Result<(), OpError> {
        if !self.done.contains(&subgraph) {
            self.call(subgraph, Vec::new(), parallel)?;
            self.done.insert(subgraph);
        }
        Ok(())
    }

    fn variable_handle(&mut self, container: &str, name: &str) -> Handle {
        let Resources { handles, values, .. } = &mut self.resources;
        if let Some(handle) = handles.get(container).and_then(|names| names.get(name)) {
            return Handle(*handle as u64);
        }
        let next = values.len();
        handles.entry(container.to_owned()).or_default().insert(name.to_owned(), next);
        values.push(None);
        Handle(next as u64)
    }

    fn variable(&self, handle: Handle) -> Result<Option<&PassedTensor>, OpError> {
        let value = usize::try_from(handle.0).ok().and_then(|index| self.resources.values.get(index));
        value.map(Option::as_ref).ok_or_else(no_variable)
    }

    fn set_variable(&mut self, handle: Handle, value: PassedTensor) -> Result<(), OpError> {
        *self.resources.slot(handle)? = Some(value);
        Ok(())
    }

    fn copy_to_variable(&mut self, handle: Handle, value: &TensorRef<'_>) -> Result<(), OpError> {
        let slot = self.resources.slot(handle)?;
        let alike = |held: &&mut PassedTensor| held.data_type == value.data_type && held.shape == *value.shape;
        let kept = slot.as_mut().filter(alike).and_then(|held| held.bytes.get_mut());
        match kept.filter(|kept| kept.len() == value.bytes.len()) {
            Some(kept) => copy(kept, value.bytes),
            None => {
                let bytes = SharedBuffer::copied(value.bytes);
                let bytes = bytes.map_err(|error| OpError::out_of_memory(format!("a variable: {error}")))?;
                *slot = Some(PassedTensor { data_type: value.data_type, shape: value.shape.clone(), bytes });
            }
        }
        Ok(())
    }

    fn release_variable(&mut self, handle: Handle, value: &SharedBuffer) -> bool {
        let slot = usize::try_from(handle.0).ok().and_then(|index| self.resources.values.get_mut(index));
        slot.is_some_and(|slot| slot.take_if(|held| held.bytes.is_same(value)).is_some())
    }

    fn note_copied(&mut self, bytes: usize) {
        self.copied = self.copied.saturating_add(bytes as u64);
    }

    fn table_handle(&mut self, table: i32) -> Handle {
        self.resources.tables.entry(table as u32).or_default();
        Handle(TABLE | u64::from(table as u32))
    }

    fn table(&self, handle: Handle) -> Result<Option<Arc<HashTable>>, OpError> {
        let table = table_number(handle).and_then(|number| self.resources.tables.get(&number));
        table.cloned().ok_or_else(no_table)
    }

    fn set_table(&mut self, handle: Handle, table: Arc<HashTable>) -> Result<(), OpError> {
        let slot = table_number(handle).and_then(|number| self.resources.tables.get_mut(&number));
        *slot.ok_or_else(no_table)? = Some(table);
        Ok(())
    }
}

/// Returns the number of the hash table with this handle; `None` for other handles.
fn table_number(handle: Handle) -> Option<u32> {
    u32::try_from(handle.0 ^ TABLE).ok()
}

fn no_table() -> OpError {
    OpError::invalid("a handle that no hash table has")
}

/// Makes the executor of a called subgraph for these input shapes.
fn executor_of(plans: &Plans, subgraph: usize, shapes: Vec<Option<Shape>>) -> Result<Executor, Error> {
    let key = Key { subgraph, shapes, mode: PrepareMode::Later, is_called: true };
    let options = Options { cpu_fallback: false, ..plans.options.clone() };
    Executor::new(plans.prepared(&key)?, &options)
}

fn no_variable() -> OpError {
    OpError::invalid("a handle that no variable has")
}

/// Whether the inputs of the graph have the types and shapes of `inputs`.
fn fits(graph: &Graph, inputs: &[PassedTensor]) -> bool {
    let fits = |(id, input): (&TensorId, &PassedTensor)| {
        let fact = graph.fact(*id);
        fact.data_type == input.data_type && fact.shape.as_ref() == Some(&input.shape)
    };
    graph.inputs.len() == inputs.len() && graph.inputs.iter().zip(inputs).all(fits)
}
