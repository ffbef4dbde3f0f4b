//! Overlap of two boxes, for the operators that select boxes by non-maximum suppression.

/// Returns the intersection over union of two boxes, each given by two opposite corners `[y1, x1, y2, x2]`; 0
/// where a box has no area.
pub(crate) fn overlap(left: &[f32; 4], right: &[f32; 4]) -> f32 {
    let sorted = |corners: &[f32; 4]| {
        let [y1, x1, y2, x2] = *corners;
        [y1.min(y2), x1.min(x2), y1.max(y2), x1.max(x2)]
    };
    let area = |[y1, x1, y2, x2]: [f32; 4]| (y2 - y1) * (x2 - x1);
    let (left, right) = (sorted(left), sorted(right));
    if !(area(left) > 0.0 && area(right) > 0.0) {
        return 0.0;
    }
    let height = (left[2].min(right[2]) - left[0].max(right[0])).max(0.0);
    let width = (left[3].min(right[3]) - left[1].max(right[1])).max(0.0);
    height * width / (area(left) + area(right) - height * width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corners_come_in_any_order() {
        let unit = [0.0, 0.0, 1.0, 1.0];
        assert_eq!(overlap(&unit, &[1.0, 1.0, 0.0, 0.0]), 1.0);
        assert_eq!(overlap(&unit, &[0.0, 0.0, 1.0, 2.0]), 0.5);
        assert_eq!(overlap(&unit, &[2.0, 0.0, 3.0, 1.0]), 0.0);
    }

    #[test]
    fn nothing_overlaps_what_has_no_area() {
        assert_eq!(overlap(&[5.0; 4], &[5.0; 4]), 0.0);
        assert_eq!(overlap(&[f32::NAN; 4], &[0.0, 0.0, 1.0, 1.0]), 0.0);
    }
}
