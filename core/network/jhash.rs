//! Linux' `jhash` (`include/linux/jhash.h`, Bob Jenkins' lookup3), so that the model chooses what nft's `jhash` chooses.

const GOLDEN: u32 = 0xdead_beef;

/// The hash of `data`, as nft computes it over registers on a little-endian machine.
#[must_use]
pub(super) fn jhash(data: &[u8], seed: u32) -> u32 {
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let start = GOLDEN.wrapping_add(length).wrapping_add(seed);
    let [mut a, mut b, mut c] = [start; 3];
    let mut rest = data;
    while rest.len() > 12 {
        a = a.wrapping_add(word(rest, 0));
        b = b.wrapping_add(word(rest, 4));
        c = c.wrapping_add(word(rest, 8));
        [a, b, c] = mix(a, b, c);
        rest = &rest[12..];
    }
    if rest.is_empty() {
        return c;
    }
    a = a.wrapping_add(word(rest, 0));
    b = b.wrapping_add(word(rest, 4));
    c = c.wrapping_add(word(rest, 8));
    finish(a, b, c)
}

/// Scales a hash to `0..modulus` (`reciprocal_scale` of Linux).
#[must_use]
pub(super) fn scale(hash: u32, modulus: usize) -> usize {
    let wide = u64::from(hash) * u64::try_from(modulus).unwrap_or(0);
    usize::try_from(wide >> 32).unwrap_or(0)
}

/// Four bytes from `at` on; what lies past the end counts as zero.
fn word(data: &[u8], at: usize) -> u32 {
    let mut bytes = [0; 4];
    for (to, from) in bytes.iter_mut().zip(data.iter().skip(at)) {
        *to = *from;
    }
    u32::from_le_bytes(bytes)
}

const fn mix(mut a: u32, mut b: u32, mut c: u32) -> [u32; 3] {
    a = a.wrapping_sub(c) ^ c.rotate_left(4);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(6);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(8);
    b = b.wrapping_add(a);
    a = a.wrapping_sub(c) ^ c.rotate_left(16);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(19);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(4);
    b = b.wrapping_add(a);
    [a, b, c]
}

const fn finish(mut a: u32, mut b: u32, mut c: u32) -> u32 {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux' initial value is `JHASH_INITVAL` + length + seed, and Jenkins' `hashlittle` uses the same; these are the
    /// results of his own driver (lookup3.c, `driver5`).
    #[test]
    fn equals_jenkins_own_results() {
        assert_eq!(jhash(b"", 0), 0xdead_beef);
        assert_eq!(jhash(b"", 0xdead_beef), 0xbd5b_7dde);
        assert_eq!(jhash(b"Four score and seven years ago", 0), 0x1777_0551);
        assert_eq!(jhash(b"Four score and seven years ago", 1), 0xcd62_8161);
    }

    #[test]
    fn scaling_covers_all_slots_and_no_more() {
        assert_eq!(scale(0, 128), 0);
        assert_eq!(scale(u32::MAX, 128), 127);
    }
}
