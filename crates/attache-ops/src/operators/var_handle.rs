//! VAR_HANDLE: the handle of the resource variable with a given name.

use attache_base::DataType;
use attache_graph::{Eval, Handle, Inferred, OpError, VariableUse};
use attache_model::schema::BuiltinOperator;

use crate::{Code, Declaration, Definition, Facts, Operator, Parsed};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Builtin(BuiltinOperator::VAR_HANDLE), versions: 1..=1, inputs: &[], parse }];

/// VAR_HANDLE with its attributes: the container and the name that together identify the variable.
#[derive(Debug)]
struct VarHandle {
    container: String,
    shared_name: String,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_var_handle_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    Ok(Box::new(VarHandle { container: text(options.container()), shared_name: text(options.shared_name()) }))
}

impl Operator for VarHandle {
    fn infer(&self, _: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        Ok(vec![Inferred::new(DataType::Resource, [])])
    }

    fn variable_use(&self) -> Option<VariableUse<'_>> {
        Some(VariableUse::Handle { container: &self.container, name: &self.shared_name })
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        // An interpreter's variables keep their handles.
        let handle = match eval.cache.own::<Handle>() {
            Some(handle) => *handle,
            None => {
                let handle = eval.host.variable_handle(&self.container, &self.shared_name)?;
                eval.cache.keep_own(handle);
                handle
            }
        };
        eval.outputs[0].bytes.copy_from_slice(&handle.to_bytes());
        Ok(())
    }
}
