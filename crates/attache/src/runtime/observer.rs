//! What runs tell a program about their parts: when each begins, and when it ends.

use std::fmt;
use std::sync::Arc;

use attache_graph::Node;

/// A part of a run, which an [`Observer`] is told about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RunEvent {
    /// The CPU runs an operator, or several that the preparation merged, of which the others follow without taking time.
    #[non_exhaustive]
    Operator {
        /// Index of the subgraph in the model.
        subgraph: usize,
        /// Index of the operator in the subgraph.
        operator: usize,
    },
    /// A delegate runs a partition.
    #[non_exhaustive]
    Partition {
        /// Index of the subgraph in the model.
        subgraph: usize,
        /// Index of the partition, as in [`Outcome::On`](crate::Outcome::On).
        partition: usize,
        /// The name of the delegate.
        delegate: String,
    },
    /// An operator on the CPU runs a subgraph.
    #[non_exhaustive]
    Call {
        /// Index of the subgraph in the model.
        subgraph: usize,
    },
}

/// Is told about the parts of runs, for instance to take their times ([`Interpreter::observe`](crate::Interpreter::observe)).
///
/// Events end in the opposite order of that in which they begin, on the thread that runs, also where a run fails.
pub trait Observer: Send + Sync {
    /// A part of a run begins.
    fn begin(&self, event: &RunEvent);

    /// The part that began last, and has not ended, ends.
    fn end(&self, event: &RunEvent);
}

/// The observer of an interpreter's runs, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Observing(Option<Arc<dyn Observer>>);

/// Tells the observer, if there is one, about the parts of a run of one subgraph.
#[derive(Clone)]
pub(crate) struct Watch {
    observer: Option<Arc<dyn Observer>>,
    subgraph: usize,
}

/// A part of a run that has begun. It ends where the value is dropped.
pub(crate) struct Begun(Option<(Arc<dyn Observer>, Vec<RunEvent>)>);

impl Observing {
    pub(crate) fn set(&mut self, observer: Option<Arc<dyn Observer>>) {
        self.0 = observer;
    }

    /// Returns what tells about a run of a subgraph.
    pub(crate) fn watch(&self, subgraph: usize) -> Watch {
        Watch { observer: self.0.clone(), subgraph }
    }
}

impl Watch {
    /// Whether there is an observer.
    pub(crate) fn is_some(&self) -> bool {
        self.observer.is_some()
    }

    /// The run itself begins, which an operator asked for.
    pub(crate) fn call(&self) -> Begun {
        self.begin(|| vec![RunEvent::Call { subgraph: self.subgraph }])
    }

    /// A partition begins.
    pub(crate) fn partition(&self, partition: usize, delegate: &str) -> Begun {
        let subgraph = self.subgraph;
        self.begin(|| vec![RunEvent::Partition { subgraph, partition, delegate: delegate.to_owned() }])
    }

    /// A node on the CPU begins.
    pub(crate) fn node(&self, node: &Node) -> Begun {
        let operator = |operator: &usize| RunEvent::Operator { subgraph: self.subgraph, operator: *operator };
        self.begin(|| match (&node.inlined, node.place(self.subgraph)) {
            (Some(_), Some((subgraph, operator))) => vec![RunEvent::Operator { subgraph, operator }],
            _ => node.origins.iter().map(operator).collect(),
        })
    }

    fn begin(&self, events: impl FnOnce() -> Vec<RunEvent>) -> Begun {
        Begun(self.observer.as_ref().map(|observer| {
            let events = events();
            events.iter().take(1).for_each(|event| observer.begin(event));
            (observer.clone(), events)
        }))
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let Some((observer, events)) = self.0.take() else { return };
        for (index, event) in events.iter().enumerate() {
            if index > 0 {
                observer.begin(event);
            }
            observer.end(event);
        }
    }
}

impl fmt::Debug for Observing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observing").field(&self.0.is_some()).finish()
    }
}
