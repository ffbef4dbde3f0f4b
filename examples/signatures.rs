//! Trains a model on the device: signatures that share variables.
//!
//!     cargo run --release -p attache-examples --bin signatures [gpu]
//!
//! The model is a line, `y = slope · x + offset`, with the signatures that on-device training uses: `restore` sets the
//! variables, `train` makes one step of gradient descent, `infer` computes `y` and `save` returns the variables.

use attache_examples::{Arguments, Result, models};

fn main() -> Result {
    let model = models::line()?;
    let mut interpreter = Arguments::read().builder(&model)?.build()?;
    println!("signatures: {}", interpreter.signatures().collect::<Vec<_>>().join(", "));

    let mut restore = interpreter.signature("restore")?;
    restore.write("slope", &[0.0f32])?;
    restore.write("offset", &[0.0f32])?;
    restore.invoke()?;

    // Points of the line y = 2x - 1.
    let mut train = interpreter.signature("train")?;
    train.write("x", &[-1.0f32, 0.0, 1.0, 2.0])?;
    train.write("y", &[-3.0f32, -1.0, 1.0, 3.0])?;
    for step in 1..=100 {
        train.invoke()?;
        if [1, 10, 100].contains(&step) {
            println!("step {step}: loss {:.4}", train.read::<f32>("loss")?[0]);
        }
    }

    let mut infer = interpreter.signature("infer")?;
    infer.write("x", &[10.0f32, 20.0, 30.0, 40.0])?;
    infer.invoke()?;
    println!("y of 10, 20, 30, 40: {:.2?}", infer.read::<f32>("y")?);

    let mut save = interpreter.signature("save")?;
    save.invoke()?;
    println!("slope {:.3}, offset {:.3}", save.read::<f32>("slope")?[0], save.read::<f32>("offset")?[0]);
    Ok(())
}
