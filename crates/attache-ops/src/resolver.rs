//! Operators that a program registers ([`OpResolver`]): custom ones, and others in place of builtin ones.

use std::fmt;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use attache_base::Shape;
use attache_graph::{
    Eval, Fact, Host, Inferred, Lowering, Op, OpError, PassedTensor, Unsupported, VariableUse, WorkingMemory,
};
use attache_model::OperatorCode;
use attache_model::schema::BuiltinOperator;

use crate::Declaration;

/// Operators that a program registers, in addition to or in place of the library's own. Named after TensorFlow Lite's
/// `MutableOpResolver`. Clones are cheap.
///
/// A custom operator is also used for composites of its name, whose attributes are its options, and whose version is that of
/// the composite.
///
/// A registered operator takes precedence over the library's own one of the same code in the versions that it is
/// registered for. Of several registrations of one code and version, the last one counts.
#[derive(Clone, Default)]
pub struct OpResolver(Vec<Registration>);

#[derive(Clone)]
struct Registration {
    code: RegisteredCode,
    versions: RangeInclusive<i32>,
    maker: Maker,
}

/// Where a registration has its function from.
#[derive(Clone)]
enum Maker {
    Parse(Arc<Parse>),
    /// Each compiled model gets a function of its own.
    PerModel(Arc<dyn Fn(Option<usize>) -> Arc<Parse> + Send + Sync>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum RegisteredCode {
    Builtin(BuiltinOperator),
    Custom(String),
}

/// Makes an operator from what the file declares of it.
type Parse = dyn Fn(&Declaration<'_>) -> Result<Arc<dyn Op>, OpError> + Send + Sync;

impl OpResolver {
    /// Creates a resolver without registered operators.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a custom operator: its `custom_code` in model files, the versions that are implemented, and a function
    /// that makes an operator from what the file declares of it, such as its options
    /// ([`Declaration::custom_options`]).
    pub fn add_custom(
        &mut self,
        name: impl Into<String>,
        versions: RangeInclusive<i32>,
        parse: impl Fn(&Declaration<'_>) -> Result<Arc<dyn Op>, OpError> + Send + Sync + 'static,
    ) -> &mut Self {
        self.add(RegisteredCode::Custom(name.into()), versions, Maker::Parse(Arc::new(parse)))
    }

    /// Registers an operator in place of the library's own one for a builtin operator in these versions.
    pub fn add_builtin(
        &mut self,
        operator: BuiltinOperator,
        versions: RangeInclusive<i32>,
        parse: impl Fn(&Declaration<'_>) -> Result<Arc<dyn Op>, OpError> + Send + Sync + 'static,
    ) -> &mut Self {
        self.add(RegisteredCode::Builtin(operator), versions, Maker::Parse(Arc::new(parse)))
    }

    /// Registers a custom operator if there is a `name`, else one in place of a builtin operator, whose instances keep
    /// something for as long as a compiled model exists. `make` is called once for each compiled model, with its number of
    /// threads if that is known, and what it returns makes the operators of this model. That is called again with the same
    /// [`Declaration::operator`] when inputs get other shapes.
    pub fn add_per_model<P>(
        &mut self,
        operator: BuiltinOperator,
        name: Option<&str>,
        versions: RangeInclusive<i32>,
        make: impl Fn(Option<usize>) -> P + Send + Sync + 'static,
    ) -> &mut Self
    where
        P: Fn(&Declaration<'_>) -> Result<Arc<dyn Op>, OpError> + Send + Sync + 'static,
    {
        let code = name.map_or(RegisteredCode::Builtin(operator), |name| RegisteredCode::Custom(name.to_owned()));
        self.add(code, versions, Maker::PerModel(Arc::new(move |threads| Arc::new(make(threads)))))
    }

    /// Returns the resolver of a compiled model that runs on this many threads. It keeps what the operators of the model
    /// share.
    #[must_use]
    pub fn for_model(&self, threads: usize) -> Self {
        let of = |registration: &Registration| Registration {
            maker: Maker::Parse(registration.maker.parse(Some(threads))),
            ..registration.clone()
        };
        Self(self.0.iter().map(of).collect())
    }

    /// Whether nothing is registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, code: RegisteredCode, versions: RangeInclusive<i32>, maker: Maker) -> &mut Self {
        self.0.push(Registration { code, versions, maker });
        self
    }

    /// Returns the versions of the last registration of an operator's code; `None` if there is none.
    pub(crate) fn versions(&self, code: &OperatorCode) -> Option<&RangeInclusive<i32>> {
        Some(&self.0.iter().rev().find(|registration| registration.code.is(code))?.versions)
    }

    /// Makes the registered operator for an operator of a file; `None` if none is registered for its code and version.
    pub(crate) fn op(&self, declaration: &Declaration<'_>) -> Option<Result<Arc<dyn Op>, OpError>> {
        let code = &*declaration.operator.code;
        let composite = declaration.composite();
        let fits = |registration: &&Registration| match (&registration.code, &composite) {
            (RegisteredCode::Custom(name), Some((composite, version))) => {
                name == composite && registration.versions.contains(version)
            }
            _ => registration.code.is(code) && registration.versions.contains(&code.version),
        };
        let registration = self.0.iter().rev().find(fits)?;
        let name = code.name();
        let parsed = guarded(&name, "parse", || registration.maker.parse(None)(declaration));
        Some(parsed.and_then(|op| Ok(Arc::new(Registered { op: op?, name }) as Arc<dyn Op>)))
    }
}

impl Maker {
    fn parse(&self, threads: Option<usize>) -> Arc<Parse> {
        match self {
            Self::Parse(parse) => parse.clone(),
            Self::PerModel(make) => make(threads),
        }
    }
}

impl RegisteredCode {
    fn is(&self, code: &OperatorCode) -> bool {
        match self {
            Self::Builtin(builtin) => code.custom.is_none() && *builtin == code.builtin,
            Self::Custom(name) => code.custom.as_deref() == Some(name),
        }
    }
}

impl fmt::Debug for OpResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.0.iter().map(|registration| (&registration.code, &registration.versions));
        f.debug_list().entries(entries).finish()
    }
}

/// Calls `call`, which is a program's code. A panic becomes an error.
fn guarded<T>(name: &str, what: &str, call: impl FnOnce() -> T) -> Result<T, OpError> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|payload| {
        let message = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = message.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        // Dropping the payload may panic as well.
        std::mem::forget(payload);
        OpError::unsupported(format!("the registered operator {name} panicked in {what}: {message}"))
    })
}

/// A registered operator. A panic in it becomes an error.
#[derive(Debug)]
struct Registered {
    op: Arc<dyn Op>,
    name: String,
}

impl Registered {
    fn call<'a, T>(&'a self, what: &str, otherwise: T, call: impl FnOnce(&'a dyn Op) -> T) -> T {
        guarded(&self.name, what, || call(&*self.op)).unwrap_or(otherwise)
    }
}

impl Op for Registered {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_registered(&self) -> bool {
        true
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        guarded(&self.name, "infer", || self.op.infer(inputs))?
    }

    fn check_scales(&self, inputs: &[Option<&Fact>], outputs: &[&Fact]) -> Result<(), OpError> {
        guarded(&self.name, "check_scales", || self.op.check_scales(inputs, outputs))?
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        guarded(&self.name, "eval", || self.op.eval(eval))?
    }

    fn passes_tensors(&self) -> bool {
        self.call("passes_tensors", false, |op| op.passes_tensors())
    }

    fn pass(&self, inputs: Vec<Option<PassedTensor>>, host: &mut dyn Host) -> Result<Vec<PassedTensor>, OpError> {
        guarded(&self.name, "pass", || self.op.pass(inputs, host))?
    }

    fn updates(&self) -> Option<usize> {
        self.call("updates", None, |op| op.updates())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        guarded(&self.name, "lower", || self.op.lower(lowering))
            .unwrap_or_else(|panic| Err(Unsupported::new(panic.to_string())))
    }

    fn has_side_effects(&self) -> bool {
        self.call("has_side_effects", true, |op| op.has_side_effects())
    }

    fn variable_use(&self) -> Option<VariableUse<'_>> {
        self.call("variable_use", None, |op| op.variable_use())
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], outputs: &[&Shape]) -> Option<u64> {
        self.call("multiply_adds", None, |op| op.multiply_adds(inputs, outputs))
    }

    fn operations(&self, inputs: &[Option<&Shape>], outputs: &[&Shape]) -> Option<u64> {
        self.call("operations", None, |op| op.operations(inputs, outputs))
    }

    fn working_memory(&self, inputs: &[Option<&Fact>], outputs: &[&Shape]) -> WorkingMemory {
        self.call("working_memory", WorkingMemory::default(), |op| op.working_memory(inputs, outputs))
    }
}
