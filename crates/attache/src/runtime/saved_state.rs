//! A copy of the variables of an interpreter ([`State`]), from which they are restored before the CPU repeats
//! a run in which a delegate failed.
//!
//! A run does not change the inputs, and the repeated run computes all outputs again. The failed run may have
//! assigned variables, so only the variables have to be restored.

use crate::runtime::environment::{Environment, Variables};
use crate::runtime::executor::Executor;

/// A copy of the variables of an interpreter: the variable tensors of its own subgraph, and what its
/// subgraphs share.
pub(crate) struct State {
    own: Vec<Vec<u8>>,
    shared: Variables,
}

impl State {
    /// Copies the current values of all variables.
    pub(crate) fn of(executor: &Executor, environment: &Environment) -> Self {
        Self { own: executor.variables(), shared: environment.variables() }
    }

    /// Restores the values, in an executor of the same subgraph and in the environment of the same
    /// interpreter.
    pub(crate) fn restore(self, executor: &mut Executor, environment: &mut Environment) {
        executor.set_variables(&self.own);
        environment.set_variables(self.shared);
    }
}

#[cfg(all(test, feature = "zoo", not(feature = "_poison")))]
mod tests {
    use attache_model::Model;

    use crate::Limits;
    use crate::runtime::{Environment, Key, Options, Plans, PrepareMode};

    use super::*;

    #[test]
    fn variable_tensors_can_be_put_back() {
        let model = Model::from_bytes(crate::zoo::build("lstm_128").unwrap()).unwrap();
        let options = Options::new(1, &Limits::default());
        let plans = Plans::new(&model, &options);
        let key = Key { subgraph: 0, shapes: Vec::new(), mode: PrepareMode::First, is_called: false };
        let mut executor = Executor::new(plans.prepared(&key).unwrap(), &options).unwrap();
        let mut environment = Environment::new(plans);
        executor.input_mut(0).unwrap().unwrap().fill(0x3f);
        let run = |executor: &mut Executor, environment: &mut Environment| {
            executor.run(1, environment).unwrap();
            executor.output(0).unwrap().unwrap().1.to_vec()
        };
        let first = run(&mut executor, &mut environment);
        let state = State::of(&executor, &environment);
        let second = run(&mut executor, &mut environment);
        assert_ne!(first, second, "the model has a state");
        state.restore(&mut executor, &mut environment);
        assert_eq!(run(&mut executor, &mut environment), second);
    }
}
