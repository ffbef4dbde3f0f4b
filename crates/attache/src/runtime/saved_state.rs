//! A copy of the variables of an interpreter ([`State`]), from which they are restored before the CPU repeats
//! a run in which a delegate failed.
//!
//! A run does not change the inputs, except those whose values were carried over from an earlier run, and the repeated
//! run computes all outputs again. The failed run may have assigned variables, so that only these and the carried values
//! have to be restored. While a copy exists, an operator copies such a value before it changes it.

use crate::runtime::environment::{Environment, Variables};
use crate::runtime::executor::{CarriedValues, Executor};

/// A copy of the variables of an interpreter: the variable tensors of its own subgraph, and what its
/// subgraphs share.
pub(crate) struct State {
    own: Vec<Vec<u8>>,
    carried: CarriedValues,
    shared: Variables,
}

impl State {
    /// Copies the current values of all variables.
    pub(crate) fn of(executor: &Executor, environment: &Environment) -> Self {
        Self { own: executor.variables(), carried: executor.carried_values(), shared: environment.variables() }
    }

    /// Restores the values, in an executor of the same subgraph and in the environment of the same
    /// interpreter.
    pub(crate) fn restore(self, executor: &mut Executor, environment: &mut Environment) {
        executor.set_variables(&self.own);
        executor.restore_carried(self.carried);
        environment.set_variables(self.shared);
    }
}
