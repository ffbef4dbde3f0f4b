//! EQUAL, LESS and the other elementwise comparisons of two inputs, one row of the table each. The inputs
//! broadcast by NumPy's rules, and the output is BOOL. With NaN only NOT_EQUAL is true.

use attache_base::{DataType, Element, Quantization};
use attache_gpu_ir::Expression::{Constant, Input};
use attache_gpu_ir::{BinaryOp, Expression, IntExpression};
use attache_graph::{Eval, Fact, Inferred, Lowering, OpError, TensorRef, Unsupported};
use attache_kernels::elementwise::broadcast2;
use attache_kernels::quantized::elementwise::OperandScaling;
use attache_kernels::quantized::{Multiplier, Rounding, Stored};
use attache_model::schema::BuiltinOperator;

use crate::shared::exact::{affine, rescaled};
use crate::shared::integers::moves_as_integer;
use crate::shared::quantized::QuantizationParameters;
use crate::shared::support::{broadcast, elements, elements_mut, same_type};
use crate::{Code, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[
    Definition::up_to(5, Code::Builtin(BuiltinOperator::EQUAL), ALL, |_| comparison(Relation::Equal)),
    Definition::up_to(2, Code::Builtin(BuiltinOperator::GREATER), ORDERED, |_| comparison(Relation::Greater)),
    Definition::up_to(3, Code::Builtin(BuiltinOperator::GREATER_EQUAL), ORDERED, |_| {
        comparison(Relation::GreaterEqual)
    }),
    Definition::up_to(3, Code::Builtin(BuiltinOperator::LESS), ORDERED, |_| comparison(Relation::Less)),
    Definition::up_to(2, Code::Builtin(BuiltinOperator::LESS_EQUAL), ORDERED, |_| comparison(Relation::LessEqual)),
    Definition::up_to(4, Code::Builtin(BuiltinOperator::NOT_EQUAL), ALL, |_| comparison(Relation::NotEqual)),
];

const ALL: &[crate::Input] = &[input("x").of(&TYPES).narrow_too(), input("y").narrow_too()];
const ORDERED: &[crate::Input] = &[input("x").of(TYPES.split_at(6).0).narrow_too(), input("y").narrow_too()];

/// Element types that can be compared. The last two, BOOL and STRING, only by EQUAL and NOT_EQUAL.
const TYPES: [DataType; 8] = [
    DataType::Float32,
    DataType::Int32,
    DataType::Int64,
    DataType::Int16,
    DataType::Int8,
    DataType::UInt8,
    DataType::Bool,
    DataType::String,
];

/// The relation that a comparison tests between the left and the right element.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Relation {
    Equal,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    NotEqual,
}

#[derive(Debug)]
struct Comparison {
    relation: Relation,
}

fn comparison(relation: Relation) -> Parsed {
    Ok(Box::new(Comparison { relation }))
}

/// Returns how an operand with this scale and zero point is converted for a comparison: to its real value in
/// units of 2⁻⁸, rounded to an integer.
fn operand(affine: QuantizationParameters) -> OperandScaling {
    OperandScaling { zero_point: affine.zero_point, shift: 8, factor: Multiplier::new(affine.scale.into()) }
}

impl Relation {
    /// Returns the GPU expression that is 1 where the relation is true for the two inputs, else 0.
    fn expression(self) -> Expression {
        let less = |a: usize, b: usize| Input(a).binary(BinaryOp::Less, Input(b));
        let equal = || Input(0).binary(BinaryOp::Equal, Input(1));
        match self {
            Relation::Equal => equal(),
            Relation::Greater => less(1, 0),
            Relation::GreaterEqual => less(1, 0).select(Constant(1.0), equal()),
            Relation::Less => less(0, 1),
            Relation::LessEqual => less(0, 1).select(Constant(1.0), equal()),
            Relation::NotEqual => equal().select(Constant(0.0), Constant(1.0)),
        }
    }

    /// Whether the relation is true of a left element that is less than, equal to, or greater than the right one; and
    /// whether the opposite of all this is meant, also with NaN.
    fn truths(self) -> ([bool; 3], bool) {
        match self {
            Relation::Equal => ([false, true, false], false),
            Relation::Greater => ([false, false, true], false),
            Relation::GreaterEqual => ([false, true, true], false),
            Relation::Less => ([true, false, false], false),
            Relation::LessEqual => ([true, true, false], false),
            Relation::NotEqual => ([false, true, false], true),
        }
    }

    fn compare<T: Element + PartialOrd>(self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        self.compare_by::<T, T>(eval, |left| left, |right| right)
    }

    /// Compares the elements of the inputs after mapping them with `l` and `r`.
    fn compare_by<T: Element, U: PartialOrd>(
        self,
        eval: &mut Eval<'_>,
        l: impl Fn(T) -> U,
        r: impl Fn(T) -> U,
    ) -> Result<(), OpError> {
        let (left, right, output) = (eval.input(0)?, eval.input(1)?, &mut eval.outputs[0]);
        let left = (left.values::<T>()?, &left.shape[..]);
        let right = (right.values::<T>()?, &right.shape[..]);
        let output = (elements_mut::<u8>(output.bytes)?, &output.shape[..]);
        let ([less, equal, greater], opposite) = self.truths();
        broadcast2(left, right, output, |a, b| {
            let (a, b) = (l(a), r(b));
            u8::from((less & (a < b)) | (equal & (a == b)) | (greater & (a > b))) ^ u8::from(opposite)
        });
        Ok(())
    }

    /// Whether 16-bit elements are compared by their real values: only by EQUAL and NOT_EQUAL, and only where
    /// `left`, the left input's quantization, is present. TensorFlow Lite's kernels for the other relations
    /// compare the stored integers.
    fn counts_scales(self, left: Option<&Quantization>) -> bool {
        left.is_some() && matches!(self, Relation::Equal | Relation::NotEqual)
    }

    /// Compares quantized elements by their real values, in units of 2⁻⁸.
    fn compare_stored<T: Stored>(self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let operand =
            |tensor: TensorRef<'_>| QuantizationParameters::new(tensor.data_type, tensor.quantization).map(operand);
        let (left, right) = (operand(eval.input(0)?)?, operand(eval.input(1)?)?);
        self.compare_by::<T, i32>(eval, |x| left.apply(x.into()), |x| right.apply(x.into()))
    }

    /// Emits the comparison of quantized elements by their real values, in units of 2⁻⁸. `facts` are those of
    /// the two inputs.
    fn lower_stored(self, lowering: &mut Lowering<'_>, facts: [&Fact; 2]) -> Result<(), Unsupported> {
        let scaled = |index: usize| {
            let OperandScaling { zero_point, shift, factor } = operand(affine(facts[index])?);
            let digits = IntExpression::Input(index).plus(-zero_point).shifted_left(shift);
            Ok::<_, Unsupported>(rescaled(digits, factor, Rounding::Twice))
        };
        self.lower_integers(lowering, [scaled(0)?, scaled(1)?])
    }

    /// Emits the comparison of two expressions of the inputs' elements.
    fn lower_integers(self, lowering: &mut Lowering<'_>, [left, right]: [IntExpression; 2]) -> Result<(), Unsupported> {
        let not = |truth: IntExpression| IntExpression::Constant(1).subtract(truth);
        let expression = match self {
            Relation::Equal => left.equal(right),
            Relation::Greater => right.less(left),
            Relation::GreaterEqual => not(left.less(right)),
            Relation::Less => left.less(right),
            Relation::LessEqual => not(right.less(left)),
            Relation::NotEqual => not(left.equal(right)),
        };
        let (operands, shape) = ([lowering.input(0)?, lowering.input(1)?], lowering.output_shape(0)?.clone());
        let output = lowering.int_map(expression, &shape, &operands)?;
        lowering.output(0, output)
    }

    /// Compares strings byte by byte.
    fn compare_strings(self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (left, right, output) = (eval.input(0)?, eval.input(1)?, &mut eval.outputs[0]);
        let (lefts, rights): (Vec<_>, Vec<_>) = (left.strings()?.iter().collect(), right.strings()?.iter().collect());
        let expected = self == Relation::Equal;
        let same = |l: &[u8], r: &[u8]| u8::from((l == r) == expected);
        let output = (elements_mut(output.bytes)?, &output.shape[..]);
        broadcast2((&lefts, left.shape), (&rights, right.shape), output, same);
        Ok(())
    }

    /// Compares booleans; any byte other than 0 is true.
    fn compare_truths(self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (left, right, output) = (eval.input(0)?, eval.input(1)?, &mut eval.outputs[0]);
        let left = (elements::<u8>(left.bytes)?, &left.shape[..]);
        let right = (elements::<u8>(right.bytes)?, &right.shape[..]);
        let expected = self == Relation::Equal;
        let same = |l: u8, r: u8| u8::from(((l != 0) == (r != 0)) == expected);
        broadcast2(left, right, (elements_mut(output.bytes)?, output.shape), same);
        Ok(())
    }
}

impl Operator for Comparison {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [left, right] = inputs.required();
        same_type(left, right)?;
        for fact in [left, right].into_iter().filter(|fact| matches!(fact.data_type, DataType::Int8 | DataType::UInt8))
        {
            QuantizationParameters::new(fact.data_type, fact.quantization.as_ref())?;
        }
        let shape = broadcast(&[left, right])?;
        Ok(vec![Inferred { data_type: DataType::Bool, shape }])
    }

    /// True, because `eval` also checks the scales of 16-bit elements.
    fn runs_when_empty(&self) -> bool {
        true
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let left = eval.input(0)?;
        match left.data_type {
            DataType::Int32 => self.relation.compare::<i32>(eval),
            DataType::Int64 => self.relation.compare::<i64>(eval),
            DataType::Int8 => self.relation.compare_stored::<i8>(eval),
            DataType::UInt8 => self.relation.compare_stored::<u8>(eval),
            DataType::Int16 if self.relation.counts_scales(left.quantization) => {
                self.relation.compare_stored::<i16>(eval)
            }
            DataType::Int16 => self.relation.compare::<i16>(eval),
            DataType::Bool => self.relation.compare_truths(eval),
            DataType::String => self.relation.compare_strings(eval),
            _ => self.relation.compare::<f32>(eval),
        }
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (left, right) = (lowering.input_fact(0)?, lowering.input_fact(1)?);
        let is_byte = matches!(left.data_type, DataType::Int8 | DataType::UInt8);
        if is_byte || left.data_type == DataType::Int16 && self.relation.counts_scales(left.quantization.as_ref()) {
            return self.relation.lower_stored(lowering, [left, right]);
        }
        if moves_as_integer(left.data_type) {
            return self.relation.lower_integers(lowering, [0, 1].map(IntExpression::Input));
        }
        let (left, right) = (lowering.input(0)?, lowering.input(1)?);
        let shape = lowering.output_shape(0)?.clone();
        let output = lowering.integer_map(self.relation.expression(), &shape, &[left, right])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn infer(relation: Relation, left: Fact, right: Fact) -> Result<Vec<Inferred>, OpError> {
        DEFINITIONS[relation as usize].infer(&Comparison { relation }, &[Some(&left), Some(&right)])
    }

    #[test]
    fn truths_are_equal_or_not_but_have_no_order() {
        let truth = || Fact::new(DataType::Bool, [2]);
        assert_eq!(infer(Relation::Equal, truth(), truth()).unwrap(), [Inferred::new(DataType::Bool, [2])]);
        assert!(matches!(infer(Relation::Less, truth(), truth()), Err(OpError::Unsupported(_))));
        assert!(infer(Relation::Equal, truth(), Fact::new(DataType::Float32, [2])).is_err());
    }

    #[test]
    fn relations_are_what_they_say() {
        use Relation::*;
        for (relation, expected) in [
            (Equal, [0.0, 1.0, 0.0, 0.0]),
            (Greater, [0.0, 0.0, 1.0, 0.0]),
            (GreaterEqual, [0.0, 1.0, 1.0, 0.0]),
            (Less, [1.0, 0.0, 0.0, 0.0]),
            (LessEqual, [1.0, 1.0, 0.0, 0.0]),
            (NotEqual, [1.0, 0.0, 1.0, 1.0]),
        ] {
            let expression = relation.expression();
            let pairs = [[1.0, 2.0], [2.0, 2.0], [3.0, 2.0], [f32::NAN, 2.0]];
            assert_eq!(pairs.map(|pair| expression.evaluate(&pair)), expected, "{relation:?}");
        }
    }
}
