#![allow(unsafe_code)]
//! A session in which a delegate has prepared: the nodes that it takes, and its kernels.

use std::collections::HashSet;
use std::sync::Arc;
#[cfg(not(attache_small))]
use std::sync::PoisonError;

use attache::DelegateError;
use attache::graph::NodeId;
#[cfg(not(attache_small))]
use attache_abi::report::text_from_c;
use attache_abi::{NULL_BUFFER_HANDLE, TfLiteStatus};

use super::{Nodes, Session, View};
use crate::source::Source;

/// A session in which a delegate has prepared. In TensorFlow Lite this is an interpreter with the delegate.
#[derive(Debug)]
pub(crate) struct OpenSession {
    session: *mut Session,
    pub(crate) source: Arc<Source>,
    pub(crate) view: View,
}

// SAFETY: the session is used only while the lock of the source is held.
unsafe impl Send for OpenSession {}
// SAFETY: as above.
unsafe impl Sync for OpenSession {}

impl OpenSession {
    /// Has a delegate prepare a graph.
    pub(crate) fn new(source: &Arc<Source>, view: &View) -> Result<Arc<Self>, DelegateError> {
        let open = Self { session: Session::of_view(view.clone()), source: source.clone(), view: view.clone() };
        let lock = source.lock();
        // SAFETY: the lock is held, and no reference to the session is kept while the delegate is called.
        let status = unsafe {
            (*open.session).set_open(true);
            let status = source.prepare(&raw mut (*open.session).context);
            (*open.session).set_open(false);
            status
        };
        let result = open.check(status, "Prepare");
        #[cfg(not(attache_small))]
        open.note_kernel();
        drop(lock);
        result.map(|()| Arc::new(open))
    }

    /// Notes the name of a kernel of the delegate's, if it has made one. The lock has to be held.
    #[cfg(not(attache_small))]
    fn note_kernel(&self) {
        // SAFETY: the lock is held, and no C code is called.
        let session = unsafe { &*self.session };
        let kernel = session.nodes.iter().find(|node| node.kernel.is_some());
        // SAFETY: the delegate stated the name, which is null or stays valid as long as the kernel.
        let name = kernel.and_then(|node| unsafe { text_from_c(node.registration.custom_name) });
        if let Some(name) = name {
            *self.source.kernel.lock().unwrap_or_else(PoisonError::into_inner) = Some(name.to_owned());
        }
    }

    /// Returns the nodes that the delegate takes.
    pub(crate) fn taken(&self) -> HashSet<NodeId> {
        let _lock = self.source.lock();
        // SAFETY: the lock is held, and no C code is called.
        let session = unsafe { &*self.session };
        session.nodes.iter().filter_map(|node| node.kernel.as_ref()).flat_map(|kernel| kernel.nodes.clone()).collect()
    }

    /// Returns the numbers of the kernels that stand for these nodes, in an order in which they can run.
    pub(crate) fn kernels(&self, nodes: &[NodeId]) -> Result<Vec<usize>, DelegateError> {
        let wanted: HashSet<NodeId> = nodes.iter().copied().collect();
        let _lock = self.source.lock();
        // SAFETY: the lock is held, and no C code is called.
        let session = unsafe { &*self.session };
        let mut left: Vec<usize> = Vec::new();
        let mut covered = 0;
        for (number, node) in session.nodes.iter().enumerate() {
            let Some(kernel) = &node.kernel else { continue };
            if kernel.nodes.iter().all(|id| wanted.contains(id)) {
                left.push(number);
                covered += kernel.nodes.len();
            }
        }
        if covered != nodes.len() {
            return Err(DelegateError::new("its kernels are not those of the partitions that it was given"));
        }
        ordered(&session.nodes, left)
    }

    /// Returns the session, for calls while the lock is held.
    pub(crate) fn as_ptr(&self) -> *mut Session {
        self.session
    }

    /// Turns the status of a call into an error, with what the delegate has reported. The lock has to be held.
    pub(crate) fn check(&self, status: TfLiteStatus, what: &str) -> Result<(), DelegateError> {
        // SAFETY: the lock is held, and no C code is called.
        let errors = unsafe { (*self.session).take_errors() };
        if status.is_ok() {
            return Ok(());
        }
        let why = errors.unwrap_or_else(|| "it does not say why".into());
        Err(DelegateError::new(format!("its {what} failed with status {}: {why}", status.0)))
    }
}

/// Orders kernels so that each comes after those whose outputs it reads. Fails if they wait for each other.
fn ordered(nodes: &Nodes, mut left: Vec<usize>) -> Result<Vec<usize>, DelegateError> {
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let reads = |number: &usize| {
            let others = left.iter().filter(|other| *other != number);
            others.flat_map(|other| nodes[*other].outputs()).any(|tensor| nodes[*number].inputs().contains(tensor))
        };
        let next = left.iter().position(|number| !reads(number));
        let next = next.ok_or_else(|| DelegateError::new("its kernels read each other's outputs"))?;
        order.push(left.remove(next));
    }
    Ok(order)
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        let _lock = self.source.lock();
        // SAFETY: the session is this value's own, and the delegate is still there. No reference is kept during calls.
        unsafe {
            Session::free_nodes(self.session);
            for index in 0..(*self.session).tensors.len() {
                let tensor = (*self.session).tensor(index as i32);
                if (*tensor).buffer_handle != NULL_BUFFER_HANDLE {
                    self.source.free_handle(&raw mut (*self.session).context, tensor);
                }
            }
            Session::free(self.session);
        }
    }
}
