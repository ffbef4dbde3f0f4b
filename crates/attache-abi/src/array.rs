#![allow(unsafe_code)]
//! `TfLiteIntArray` and `TfLiteFloatArray`: a length followed by that many elements, allocated with `malloc` because C
//! code on the other side frees them.

use std::ffi::c_int;
use std::mem::size_of;
use std::slice;

/// Declares an array of C with its functions.
macro_rules! array {
    ($(#[$about:meta])* $name:ident, $element:ty) => {
        $(#[$about])*
        #[repr(C)]
        #[derive(Debug)]
        #[allow(missing_docs)]
        pub struct $name {
            pub size: c_int,
            data: [$element; 0],
        }

        impl $name {
            /// Returns the size in bytes of an array of `length` elements; 0 where there is no such array.
            #[must_use]
            pub fn bytes(length: c_int) -> usize {
                usize::try_from(length).map_or(0, |length| size_of::<Self>() + length * size_of::<$element>())
            }

            /// Allocates an array of `length` elements that are 0. Returns null if `length` is negative or there is no
            /// memory. Free it with [`Self::free`], or with `free` in C.
            #[must_use]
            pub fn zeros(length: c_int) -> *mut Self {
                let bytes = Self::bytes(length);
                if bytes == 0 {
                    return std::ptr::null_mut();
                }
                // SAFETY: calloc has no preconditions; the size is that of the header and the elements.
                let array = unsafe { libc::calloc(1, bytes) }.cast::<Self>();
                if !array.is_null() {
                    // SAFETY: the memory was just allocated for this header, and is aligned for any type.
                    unsafe { (*array).size = length };
                }
                array
            }

            /// Allocates an array with these elements. Returns null where there is no memory, or too many elements.
            #[must_use]
            pub fn new(elements: &[$element]) -> *mut Self {
                let array = c_int::try_from(elements.len()).map_or(std::ptr::null_mut(), Self::zeros);
                if !array.is_null() {
                    // SAFETY: the array was just made with room for as many elements, and nobody else has it.
                    unsafe { Self::elements_mut(array) }.copy_from_slice(elements);
                }
                array
            }

            /// Returns the elements; none for null.
            ///
            /// # Safety
            ///
            /// `array` is null or points to a valid array, which is neither changed nor freed while the slice is in use.
            #[must_use]
            pub unsafe fn elements<'a>(array: *const Self) -> &'a [$element] {
                if array.is_null() {
                    return &[];
                }
                // SAFETY: the caller states that the array is valid, so `size` elements follow the header. The pointer
                // to them is made without a reference to the header, since it leads outside it.
                unsafe {
                    let length = usize::try_from((*array).size).unwrap_or(0);
                    slice::from_raw_parts((&raw const (*array).data).cast(), length)
                }
            }

            /// Returns the elements, to be changed; none for null.
            ///
            /// # Safety
            ///
            /// `array` is null or points to a valid array that nobody else uses while the slice is in use.
            #[must_use]
            pub unsafe fn elements_mut<'a>(array: *mut Self) -> &'a mut [$element] {
                if array.is_null() {
                    return &mut [];
                }
                // SAFETY: as in `elements`; the caller states that nobody else uses the array.
                unsafe {
                    let length = usize::try_from((*array).size).unwrap_or(0);
                    slice::from_raw_parts_mut((&raw mut (*array).data).cast(), length)
                }
            }

            /// Allocates a copy; null for null.
            ///
            /// # Safety
            ///
            /// `array` is null or points to a valid array.
            #[must_use]
            pub unsafe fn copy(array: *const Self) -> *mut Self {
                // SAFETY: the caller states that the array is valid where it is not null.
                if array.is_null() { std::ptr::null_mut() } else { Self::new(unsafe { Self::elements(array) }) }
            }

            /// Frees an array; does nothing for null.
            ///
            /// # Safety
            ///
            /// `array` is null or was allocated with `malloc` or by a function of this type, and is not used afterwards.
            pub unsafe fn free(array: *mut Self) {
                // SAFETY: the caller states that `free` may take the pointer.
                unsafe { libc::free(array.cast()) };
            }
        }
    };
}

array! {
    /// Integers, for example a shape or the indices of tensors.
    TfLiteIntArray, c_int
}

array! {
    /// Floats, for example the scales of a tensor.
    TfLiteFloatArray, f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_copied_and_freed() {
        let array = TfLiteIntArray::new(&[1, -2, 3]);
        // SAFETY: both arrays were made by this type, and are freed once, at the end.
        unsafe {
            let copy = TfLiteIntArray::copy(array);
            TfLiteIntArray::elements_mut(array)[0] = 7;
            assert_eq!(TfLiteIntArray::elements(array), [7, -2, 3]);
            assert_eq!(TfLiteIntArray::elements(copy), [1, -2, 3]);
            assert!(TfLiteIntArray::elements(std::ptr::null()).is_empty());
            TfLiteIntArray::free(array);
            TfLiteIntArray::free(copy);
        }
        assert!(TfLiteFloatArray::zeros(-1).is_null());
        assert_eq!(TfLiteFloatArray::bytes(3), 16);
    }
}
