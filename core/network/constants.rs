//! What is ours in a kernel, by name and number. All differ from Submariner's (port 4800, table 150, priorities 100 to
//! 150), so that both can stand on one node during a migration.

use super::Table;

/// Our overlay link.
pub const OVERLAY_LINK: &str = "vx-tombolo";
/// VXLAN network identifier of the overlay.
pub const OVERLAY_VNI: u32 = 7400;
/// UDP port of the overlay.
pub const OVERLAY_PORT: u16 = 4804;
/// Cable devices are named `tb-cable-<rank>`.
pub const CABLE_LINK_PREFIX: &str = "tb-cable-";
/// The cable device for remote rank r listens on this port plus r.
pub const CABLE_PORT_BASE: u16 = 4510;
/// For what comes in from a cable: to pods here or to their node, never to another gateway (F3).
pub const TABLE_FROM_CABLE: Table = Table(7401);
/// For what comes in from the overlay: to a cable or to a pod here (F2).
pub const TABLE_FROM_OVERLAY: Table = Table(7402);
/// For everything else on the node: to the gateway of the chosen path, or into its cable (F1).
pub const TABLE_OUT: Table = Table(7403);
/// Priority of the rules for cables; one for each rank is added to it.
pub const RULE_FROM_CABLE: u32 = 7410;
/// Priority of the rule for the overlay.
pub const RULE_FROM_OVERLAY: u32 = 7420;
/// Priority of the rule for everything else.
pub const RULE_OUT: u32 = 7430;
/// Priority at which Linux asks the main table.
pub const RULE_MAIN: u32 = 32_766;
/// Our nft table.
pub const NFT_TABLE: &str = "tombolo";
/// Our route protocol number (`ip route … proto 74`).
pub const ROUTE_PROTOCOL: u8 = 74;
/// Seed of the hash that picks a backend: the same on every gateway, so that a flow keeps its backend when it changes
/// gateways ("tmbl").
pub const HASH_SEED: u32 = 0x746d_626c;
