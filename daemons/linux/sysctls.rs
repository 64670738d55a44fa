//! Kernel parameters under `net.`, as the calling thread's namespace has them.

use crate::error::Fault;
use std::io;
use std::path::PathBuf;

/// Where the kernel has them.
const ROOT: &str = "/proc/sys";

/// The value; `None` if there is no such parameter (now): those of a link come and go with it.
pub(crate) fn read(key: &str) -> Result<Option<String>, Fault> {
    match std::fs::read_to_string(path(key)?) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Gives it this value, unless it has it.
pub(crate) fn write(key: &str, value: &str) -> Result<(), Fault> {
    if read(key)?.as_deref() == Some(value.trim()) {
        return Ok(());
    }
    Ok(std::fs::write(path(key)?, value.trim())?)
}

/// Dots part the words, but those in the name of a link: `net.ipv4.conf.eth0.7.rp_filter`.
fn path(key: &str) -> Result<PathBuf, Fault> {
    let words: Vec<_> = key.split('.').collect();
    let sound = words.iter().all(|word| !word.is_empty() && !word.contains('/'));
    let path = match words.as_slice() {
        ["net", family @ ("ipv4" | "ipv6"), what @ ("conf" | "neigh"), link @ .., leaf]
            if sound && !link.is_empty() =>
        {
            [ROOT, "net", family, what, &link.join("."), leaf].iter().collect()
        }
        ["net", _, ..] if sound => [ROOT].iter().chain(&words).collect(),
        _ => return Err(Fault::Unfit("not a kernel parameter under net.")),
    };
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_leads_to_its_file_and_never_out_of_net() {
        let leads = |key| path(key).ok().map(|path| path.to_string_lossy().into_owned());
        assert_eq!(leads("net.ipv4.ip_forward").unwrap(), "/proc/sys/net/ipv4/ip_forward");
        assert_eq!(leads("net.ipv4.conf.eth0.7.rp_filter").unwrap(), "/proc/sys/net/ipv4/conf/eth0.7/rp_filter");
        assert_eq!(leads("net.ipv6.conf.all.forwarding").unwrap(), "/proc/sys/net/ipv6/conf/all/forwarding");
        for key in ["kernel.hostname", "net", "net..x", "net.a/b", "net/ipv4/ip_forward", ""] {
            assert_eq!(leads(key), None, "{key}");
        }
    }
}
