//! Registers a custom operator with a form for the CPU and one for GPUs.
//!
//!     cargo run --release -p attache-examples --bin custom_operator [gpu]
//!
//! The operator computes `x · logistic(beta · x)`; `beta` is an option in the file. The form for GPUs is made of
//! primitives, which the delegate fuses with those of the operators around it.

use attache::graph::{Eval, Fact, Inferred, Lowering, Op, OpError, Unsupported};
use attache::ir::{Expression, UnaryOp};
use attache::model::{FlexMap, FlexScalar};
use attache::{DataType, Model, ModelBuilder, OpResolver, OperatorBuilder, TensorBuilder};
use attache_examples::{Arguments, Result};

#[derive(Debug)]
struct Swish {
    beta: f32,
}

impl Op for Swish {
    fn name(&self) -> &str {
        "Swish"
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> std::result::Result<Vec<Inferred>, OpError> {
        match inputs {
            [Some(x)] if x.data_type == DataType::Float32 => {
                Ok(vec![Inferred { data_type: x.data_type, shape: x.shape.clone() }])
            }
            _ => Err(OpError::invalid("Swish has one input of type FLOAT32")),
        }
    }

    fn eval(&self, eval: &mut Eval<'_>) -> std::result::Result<(), OpError> {
        let x = eval.input(0)?.values::<f32>()?;
        let y = eval.outputs[0].values::<f32>()?;
        y.iter_mut().zip(x).for_each(|(y, x)| *y = x / (1.0 + (-self.beta * x).exp()));
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> std::result::Result<(), Unsupported> {
        let x = lowering.float_input(0)?;
        let shape = lowering.output_shape(0)?;
        let value = || Expression::Input(0);
        let gate = value().multiply(Expression::Constant(self.beta)).unary(UnaryOp::Logistic);
        let y = lowering.map(value().multiply(gate), shape, &[x])?;
        lowering.output(0, y)
    }
}

/// Returns the operators of this program.
fn operators() -> OpResolver {
    let mut operators = OpResolver::new();
    operators.add_custom("Swish", 1..=1, |declaration| {
        let options = FlexMap::read(declaration.custom_options());
        match options.and_then(|options| options.get("beta")) {
            Some(FlexScalar::Float(beta)) => Ok(std::sync::Arc::new(Swish { beta: beta as f32 })),
            _ => Err(OpError::invalid("the file does not say its beta")),
        }
    });
    operators
}

fn main() -> Result {
    let mut builder = ModelBuilder::new("a custom operator");
    let main = builder.subgraph("main");
    let [x, y] = ["x", "y"].map(|name| builder.tensor(main, TensorBuilder::new(name, DataType::Float32, [4])));
    let options = FlexMap::write(&[("beta", FlexScalar::Float(1.5))]);
    builder.operator(main, OperatorBuilder::custom("Swish", options, [x], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    let model = Model::from_bytes(builder.finish())?;

    // Without the registration the model is refused, with the name of what is missing.
    let arguments = Arguments::read();
    let error = arguments.builder(&model)?.build().expect_err("nobody knows this operator");
    println!("{error:?}");

    let mut interpreter = arguments.builder(&model)?.operators(&operators()).build()?;
    interpreter.write("x", &[-2.0f32, -0.5, 0.5, 2.0])?;
    interpreter.invoke()?;
    println!("{:.4?}", interpreter.read::<f32>("y")?);
    eprintln!("{}", interpreter.placement());
    Ok(())
}
