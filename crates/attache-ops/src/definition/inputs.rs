//! Declarations of operators' inputs ([`Input`]), the check of a node's inputs against them, and access to
//! checked inputs by index ([`Facts`]), which `infer` of every operator uses.

use std::fmt::Display;

use attache_base::DataType;
use attache_graph::{Fact, OpError};

/// The declaration of one input of an operator, as listed in
/// [`Definition::inputs`](super::Definition::inputs). Made by [`input`].
#[derive(Clone, Copy, Debug)]
pub struct Input {
    /// TensorFlow's name for the input, such as `axis`; used in error messages.
    pub name: &'static str,
    /// The element types that the input accepts.
    pub types: Types,
    /// Whether the input accepts floats of 16 bits as well. The operator gets and gives float32 in their place.
    pub is_narrow_too: bool,
    /// Whether the input may be a constant that is quantized by blocks.
    pub is_blockwise_too: bool,
    /// Whether a node may omit the input. An omitted input at the end of the list may also be missing from
    /// the node's list of inputs.
    pub is_optional: bool,
    /// Whether this last declaration stands for any number of inputs at the end of the list, including none.
    pub is_repeated: bool,
}

/// The element types that an input accepts.
#[derive(Clone, Copy, Debug)]
pub enum Types {
    /// Any type, as far as this check is concerned; `infer` of the operator may reject some.
    Any,
    /// Only the listed types.
    OneOf(&'static [DataType]),
    /// Types whose elements have 8, 16, 32, 64 or 128 bits, so that they can be copied as whole bytes.
    Movable,
    /// [`Movable`](Types::Movable) types, and strings. The operator does nothing but move elements, and gets the places of
    /// strings, which are integers, instead of the strings.
    MovableOrStrings,
    /// Only `RESOURCE`, the handle of a resource variable.
    Resource,
    /// Only the type of the required input with this index in the same list.
    Like(usize),
}

/// Declares a required input of any type.
#[must_use]
pub const fn input(name: &'static str) -> Input {
    let types = Types::Any;
    Input { name, types, is_narrow_too: false, is_blockwise_too: false, is_optional: false, is_repeated: false }
}

impl Input {
    /// Restricts the input to the listed types.
    #[must_use]
    pub const fn of(self, types: &'static [DataType]) -> Self {
        Self { types: Types::OneOf(types), ..self }
    }

    /// Accepts floats of 16 bits too, which the operator computes as float32; each result is rounded once. The smallest
    /// libraries do without.
    #[must_use]
    pub const fn narrow_too(self) -> Self {
        Self { is_narrow_too: !cfg!(attache_small), ..self }
    }

    /// Accepts constants that are quantized by blocks too, whose scales the operator's `parse` reads.
    #[must_use]
    pub const fn blockwise_too(self) -> Self {
        Self { is_blockwise_too: true, ..self }
    }

    /// Restricts the input to float32.
    #[must_use]
    pub const fn float(self) -> Self {
        self.of(&[DataType::Float32])
    }

    /// Restricts the input to 32-bit and 64-bit signed integers, the types of axes, shapes and indices.
    #[must_use]
    pub const fn integral(self) -> Self {
        self.of(&[DataType::Int32, DataType::Int64])
    }

    /// Restricts the input to types whose elements can be copied as whole bytes; see [`Types::Movable`].
    #[must_use]
    pub const fn movable(self) -> Self {
        Self { types: Types::Movable, ..self }
    }

    /// Restricts the input to types whose elements can be copied as whole bytes, and strings; see
    /// [`Types::MovableOrStrings`].
    #[must_use]
    pub const fn movable_or_strings(self) -> Self {
        Self { types: Types::MovableOrStrings, ..self }
    }

    /// Restricts the input to handles of resource variables.
    #[must_use]
    pub const fn resource(self) -> Self {
        Self { types: Types::Resource, ..self }
    }

    /// Restricts the input to the type of the required input with this index.
    #[must_use]
    pub const fn like(self, index: usize) -> Self {
        Self { types: Types::Like(index), ..self }
    }

    /// Allows a node to omit the input.
    #[must_use]
    pub const fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    /// Makes this last declaration stand for any number of inputs at the end of the list, including none.
    #[must_use]
    pub const fn repeated(self) -> Self {
        Self { is_repeated: true, ..self }
    }

    /// Checks that `fact`, the node's input `index`, has a type that this declaration accepts. `inputs` are
    /// all inputs of the node, for [`Types::Like`].
    fn check(&self, index: usize, fact: &Fact, inputs: Facts<'_>) -> Result<(), OpError> {
        let (name, data_type) = (self.name, fact.data_type);
        match self.types {
            Types::Any => Ok(()),
            Types::OneOf(allowed) => one_of(format_args!("input {index} ({name})"), data_type, allowed),
            Types::Like(other) => {
                one_of(format_args!("input {index} ({name})"), data_type, &[inputs.fact(other).data_type])
            }
            Types::Movable | Types::MovableOrStrings if matches!(data_type.bits(), Some(8 | 16 | 32 | 64 | 128)) => {
                Ok(())
            }
            Types::MovableOrStrings if data_type == DataType::String => Ok(()),
            Types::Movable | Types::MovableOrStrings => {
                Err(OpError::unsupported(format!("input {index} ({name}) of type {data_type} is not implemented")))
            }
            Types::Resource if data_type == DataType::Resource => Ok(()),
            Types::Resource => {
                Err(OpError::invalid(format!("input {index} ({name}) is of type {data_type}, not RESOURCE")))
            }
        }
    }
}

/// Checks that `data_type` is one of `allowed`; `what` names the tensor in the error. Also used by operators
/// where the accepted types of one input depend on the type of another.
pub(crate) fn one_of(what: impl Display, data_type: DataType, allowed: &[DataType]) -> Result<(), OpError> {
    if allowed.contains(&data_type) {
        return Ok(());
    }
    let names: Vec<_> = allowed.iter().map(|data_type| data_type.name()).collect();
    Err(OpError::unsupported(format!("{what} is of type {data_type}; implemented: {}", names.join(", "))))
}

/// What is known about each input of a node. The inputs that the operator's declaration requires are present;
/// optional inputs may be `None`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a>(&'a [Option<&'a Fact>]);

impl<'a> Facts<'a> {
    /// Returns the inputs after checking their number, presence and types against the declaration.
    pub(crate) fn checked(declared: &[Input], inputs: &'a [Option<&'a Fact>]) -> Result<Self, OpError> {
        let facts = Self::present(declared, inputs)?;
        for (index, fact) in inputs.iter().enumerate() {
            if let (Some(fact), Some(input)) = (fact, at(declared, index)) {
                input.check(index, fact, facts)?;
            }
        }
        Ok(facts)
    }

    /// Returns the inputs after checking their number and presence, but not their types, against the
    /// declaration.
    pub(super) fn present(declared: &[Input], inputs: &'a [Option<&'a Fact>]) -> Result<Self, OpError> {
        check_count(declared, inputs.len())?;
        for index in 0..declared.len().max(inputs.len()) {
            let Some(input) = at(declared, index) else { continue };
            let may_be_absent = input.is_optional || input.is_repeated && index >= inputs.len();
            if !may_be_absent && inputs.get(index).copied().flatten().is_none() {
                return Err(OpError::invalid(format!("input {index} ({}) is missing", input.name)));
            }
        }
        Ok(Self(inputs))
    }

    /// Returns the number of inputs, including omitted ones within the list.
    pub(crate) fn count(self) -> usize {
        self.0.len()
    }

    /// Returns what is known about the required input `index`.
    ///
    /// # Panics
    ///
    /// Panics where the input is absent, which [`checked`](Self::checked) rules out for inputs that the
    /// declaration requires.
    pub(crate) fn fact(self, index: usize) -> &'a Fact {
        self.optional(index).expect("the declaration requires the input")
    }

    /// Returns what is known about the first `N` inputs, all of which the declaration must require.
    ///
    /// # Panics
    ///
    /// Panics where one of the inputs is absent.
    pub(crate) fn required<const N: usize>(self) -> [&'a Fact; N] {
        std::array::from_fn(|index| self.fact(index))
    }

    /// Returns what is known about an optional input; `None` where the node omits it.
    pub(crate) fn optional(self, index: usize) -> Option<&'a Fact> {
        self.0.get(index).copied().flatten()
    }

    /// Returns the inputs from index `first` to the end; `None` for each omitted one.
    pub(crate) fn from(self, first: usize) -> &'a [Option<&'a Fact>] {
        &self.0[first..]
    }

    /// Returns the integers in the constant value of the required input `index`, such as axes or a shape;
    /// `None` where the value is known only at run time. Fails where the elements are not integers.
    pub(crate) fn integers(self, index: usize) -> Result<Option<Vec<i64>>, OpError> {
        let Some(constant) = &self.fact(index).constant else { return Ok(None) };
        let integers = constant.integers();
        integers.map(Some).ok_or_else(|| OpError::invalid(format!("input {index} does not hold integers")))
    }
}

/// Returns the declaration that applies to input `index`. A repeated last declaration applies to all further
/// inputs.
pub(super) fn at(declared: &[Input], index: usize) -> Option<&Input> {
    declared.get(index).or_else(|| declared.last().filter(|last| last.is_repeated))
}

/// Checks that the operator accepts `count` inputs. Inputs after the last required one may be missing. A
/// repeated last declaration accepts any number of inputs.
fn check_count(declared: &[Input], count: usize) -> Result<(), OpError> {
    let least = declared.iter().rposition(|input| !input.is_optional).map_or(0, |last| last + 1);
    let most = declared.len();
    if declared.last().is_some_and(|last| last.is_repeated) || (least..=most).contains(&count) {
        return Ok(());
    }
    let expected = if least == most { most.to_string() } else { format!("{least} to {most}") };
    Err(OpError::invalid(format!("{count} inputs; it takes {expected}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float() -> Fact {
        Fact::new(DataType::Float32, [2])
    }

    /// Checks inputs of these types (`None` is an omitted input) against the declaration. Returns the error's
    /// text, or an empty string if the inputs are accepted.
    fn error(declared: &[Input], types: &[Option<DataType>]) -> String {
        let facts: Vec<_> =
            types.iter().map(|data_type| data_type.map(|data_type| Fact::new(data_type, [2]))).collect();
        let inputs: Vec<_> = facts.iter().map(Option::as_ref).collect();
        Facts::checked(declared, &inputs).map_or_else(|error| error.to_string(), |_| String::new())
    }

    const FLOAT: Option<DataType> = Some(DataType::Float32);
    const INTEGER: Option<DataType> = Some(DataType::Int32);

    #[test]
    fn optional_inputs_are_absent_or_left_out_at_the_end() {
        let declared = [input("input"), input("gate").optional(), input("filter"), input("bias").optional()];
        for taken in [&[FLOAT; 4][..], &[FLOAT; 3], &[FLOAT, None, FLOAT, None]] {
            assert_eq!(error(&declared, taken), "", "{taken:?}");
        }
        assert!(error(&declared, &[FLOAT; 2]).ends_with("2 inputs; it takes 3 to 4"));
        assert!(error(&declared, &[FLOAT; 5]).ends_with("5 inputs; it takes 3 to 4"));
        assert!(error(&declared, &[FLOAT, FLOAT, None]).ends_with("input 2 (filter) is missing"));
        assert!(error(&[], &[FLOAT]).ends_with("1 inputs; it takes 0"));
    }

    #[test]
    fn repeated_inputs_come_in_any_number() {
        let declared = [input("first").integral(), input("rest").of(&[DataType::Float32]).repeated()];
        for taken in [&[INTEGER][..], &[INTEGER, FLOAT, FLOAT]] {
            assert_eq!(error(&declared, taken), "", "{taken:?}");
        }
        assert!(error(&declared, &[]).ends_with("input 0 (first) is missing"));
        assert!(error(&declared, &[INTEGER, FLOAT, None]).ends_with("input 2 (rest) is missing"));
        assert!(
            error(&declared, &[INTEGER, FLOAT, INTEGER])
                .ends_with("input 2 (rest) is of type INT32; implemented: FLOAT32")
        );
        assert_eq!(error(&[input("any").optional().repeated()], &[None, FLOAT]), "");
    }

    #[test]
    fn types_are_those_declared() {
        let declared = [input("data").movable(), input("same").like(0), input("variable").resource().optional()];
        assert_eq!(error(&declared, &[INTEGER, INTEGER, Some(DataType::Resource)]), "");
        assert!(error(&declared, &[INTEGER, FLOAT]).ends_with("input 1 (same) is of type FLOAT32; implemented: INT32"));
        assert!(
            error(&declared, &[FLOAT, FLOAT, FLOAT]).ends_with("input 2 (variable) is of type FLOAT32, not RESOURCE")
        );
        let text = Some(DataType::String);
        assert!(error(&declared, &[text, text]).ends_with("input 0 (data) of type STRING is not implemented"));
    }

    #[test]
    fn checked_inputs_are_read_by_index() {
        let (data, axis) = (float(), Fact::constant(attache_base::Constant::from_values([1], &[7i32])));
        let inputs = [Some(&data), Some(&axis)];
        let facts = Facts::checked(&[input("data"), input("axis"), input("bias").optional()], &inputs).unwrap();
        let [first, second] = facts.required();
        assert_eq!((first.data_type, second.data_type, facts.count()), (DataType::Float32, DataType::Int32, 2));
        assert!(facts.optional(2).is_none() && facts.from(1).len() == 1);
        assert_eq!((facts.integers(0).unwrap(), facts.integers(1).unwrap()), (None, Some(vec![7])));
    }
}
