#![allow(unsafe_code)]
//! Profilers of the program's: they are told when tensors are allocated, when subgraphs run, and about each node that runs, as
//! those of TensorFlow Lite are. The smallest libraries lack them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, c_char, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use attache::{Interpreter, Model, Observer, RunEvent};
use attache_abi::TfLiteStatus;
use attache_abi::report::text_of_c;

use crate::fault::Fault;
use crate::guard::exports;
use crate::interpreter::{self, TfLiteInterpreter};
use crate::state::State;

/// `tflite::Profiler::EventType::DEFAULT`.
const DEFAULT: i32 = 1;

/// `tflite::Profiler::EventType::OPERATOR_INVOKE_EVENT`.
const OPERATOR_INVOKE_EVENT: i32 = 2;

/// Begins an event, from its tag, its type and its two numbers, and returns a handle of it.
type Begin = unsafe extern "C" fn(*mut c_void, *const c_char, i32, i64, i64) -> u32;

/// Ends an event.
type End = unsafe extern "C" fn(*mut c_void, u32);

/// A profiler of the program's.
pub(crate) struct Profiler {
    begin: Begin,
    end: End,
    data: *mut c_void,
    model: Model,
    running: Mutex<Running>,
}

/// The profiler of an interpreter, if there is one.
pub(crate) type AnyProfiler = Option<Arc<Profiler>>;

/// What a profiler was told.
#[derive(Default)]
struct Running {
    /// The events that have begun and have not ended.
    begun: Vec<u32>,
    /// The subgraph that runs, and the number and the name that the program knows each of its partitions by.
    subgraph: usize,
    partitions: BTreeMap<usize, (usize, String)>,
    /// The nodes of that subgraph that were told about in this run.
    told: BTreeSet<usize>,
}

/// Texts of tags. Profilers may keep them, also when the interpreter is gone, as they may those of TensorFlow Lite.
static TAGS: Mutex<BTreeMap<String, CString>> = Mutex::new(BTreeMap::new());

/// Returns the text of a tag, which stays where it is.
fn tag_of(tag: &str) -> *const c_char {
    let mut tags = TAGS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = tags.get(tag) {
        return known.as_ptr();
    }
    tags.entry(tag.to_owned()).or_insert_with(|| text_of_c(tag)).as_ptr()
}

// SAFETY: the program states with the functions that they may be called with its data by the threads that run the interpreter.
unsafe impl Send for Profiler {}
// SAFETY: as above.
unsafe impl Sync for Profiler {}

impl Profiler {
    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_event(&self, tag: &str, kind: i32, node: usize, subgraph: usize) {
        let tag = tag_of(tag);
        // SAFETY: the program gave the function to be called with its data. The text stays where it is.
        let event = unsafe { (self.begin)(self.data, tag, kind, node as i64, subgraph as i64) };
        self.running().begun.push(event);
    }

    fn end_event(&self) {
        let event = self.running().begun.pop();
        // SAFETY: the program gave the function to be called with its data.
        event.into_iter().for_each(|event| unsafe { (self.end)(self.data, event) });
    }

    /// Tells about a node of a subgraph.
    fn begin_node(&self, tag: &str, node: usize, subgraph: usize) {
        let mut running = self.running();
        if running.subgraph == subgraph {
            running.told.insert(node);
        }
        drop(running);
        self.begin_event(tag, OPERATOR_INVOKE_EVENT, node, subgraph);
    }

    /// Tells about a partition of a subgraph.
    fn begin_partition(&self, delegate: &str, partition: usize, subgraph: usize) {
        let (known, others) = {
            let running = self.running();
            let known = running.partitions.get(&partition).cloned();
            (known.filter(|_| running.subgraph == subgraph), running.partitions.len())
        };
        let after_operators = self.model.subgraphs()[subgraph].operators.len() + others + partition;
        let (node, name) = known.unwrap_or_else(|| (after_operators, delegate.to_owned()));
        self.begin_node(&name, node, subgraph);
    }

    /// Tells about those nodes of a subgraph that a run did without, because they are parts of others or were computed before.
    fn tell_rest(&self, subgraph: usize, order: &[i32]) {
        let operators = &self.model.subgraphs()[subgraph].operators;
        let rest: Vec<usize> = {
            let told = &self.running().told;
            let nodes = order.iter().filter_map(|node| usize::try_from(*node).ok());
            nodes.filter(|node| *node < operators.len() && !told.contains(node)).collect()
        };
        for node in rest {
            self.begin_event(&operators[node].code.name(), OPERATOR_INVOKE_EVENT, node, subgraph);
            self.end_event();
        }
    }

    /// Has the runs of an interpreter tell about their parts.
    pub(crate) fn watch(self: &Arc<Self>, interpreter: &mut Interpreter) {
        interpreter.observe(Some(self.clone()));
    }
}

impl Observer for Profiler {
    fn begin(&self, event: &RunEvent) {
        match event {
            RunEvent::Operator { subgraph, operator, .. } => {
                let name = self.model.subgraphs()[*subgraph].operators[*operator].code.name();
                self.begin_node(&name, *operator, *subgraph);
            }
            RunEvent::Partition { subgraph, partition, delegate, .. } => {
                self.begin_partition(delegate, *partition, *subgraph);
            }
            RunEvent::Call { subgraph, .. } => self.begin_event("Invoke", DEFAULT, 0, *subgraph),
            // The profiler ends as many events as it begins.
            _ => self.begin_event("Invoke", DEFAULT, 0, 0),
        }
    }

    fn end(&self, _: &RunEvent) {
        self.end_event();
    }
}

/// Ends an event, also where the work panics.
struct Ending<'a>(&'a Profiler);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end_event();
    }
}

impl State {
    /// Does a piece of work as an event of this name, if there is a profiler.
    pub(crate) fn profiled<T>(
        &mut self,
        tag: &str,
        subgraph: usize,
        work: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let Some(profiler) = self.configuration.profiler.clone() else { return work(self) };
        profiler.begin_event(tag, DEFAULT, 0, subgraph);
        let _ending = Ending(&profiler);
        work(self)
    }

    /// Runs a subgraph, and tells the profiler, if there is one, about each of its nodes.
    pub(crate) fn run_profiled(&mut self, subgraph: usize) -> Result<(), Fault> {
        let Some(profiler) = self.configuration.profiler.clone() else { return self.run(subgraph) };
        self.ready(subgraph).map(drop)?;
        let plan = self.plan(subgraph)?;
        let (order, partitions) = (plan.order.clone(), plan.partitions());
        let mut running = profiler.running();
        (running.subgraph, running.partitions, running.told) = (subgraph, partitions, BTreeSet::new());
        drop(running);
        self.profiled("Invoke", subgraph, |state| {
            state.run(subgraph)?;
            profiler.tell_rest(subgraph, &order);
            Ok(())
        })
    }
}

exports! {
    /// Sets the functions of a profiler, which begin and end events. Null removes it.
    fn attache_interpreter_set_profiler(
        interpreter: *mut TfLiteInterpreter,
        data: *mut c_void,
        begin: Option<unsafe extern "C" fn(*mut c_void, *const c_char, i32, i64, i64) -> u32>,
        end: Option<unsafe extern "C" fn(*mut c_void, u32)>,
    ) -> TfLiteStatus {
        interpreter::status(interpreter, |state| {
            let profiler = begin.zip(end).map(|(begin, end)| {
                Arc::new(Profiler { begin, end, data, model: state.model.clone(), running: Mutex::default() })
            });
            if let Some(interpreter) = &mut state.interpreter {
                let observer = profiler.clone().map(|profiler| profiler as Arc<dyn Observer>);
                interpreter.observe(observer);
            }
            state.configuration.profiler = profiler;
            Ok(())
        })
    } else TfLiteStatus::ERROR;
}
