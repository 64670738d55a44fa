//! Hashes that never change: between runs, releases and machines. Not for secrets.

/// 64-bit FNV-1a (draft-eastlake-fnv).
#[must_use]
pub const fn fnv1a(bytes: &[u8]) -> u64 {
    fnv1a_more(0xcbf2_9ce4_8422_2325, bytes)
}

/// Goes on from `hash`, a result of [`fnv1a`].
#[must_use]
pub const fn fnv1a_more(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}

/// Spreads the bits of `x` (the finaliser of splitmix64), so that near inputs give far outputs.
#[must_use]
pub const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
