//! How a gateway finds the address under which it is seen from outside: `--public-address`, the first way that works.

use crate::apis;
use crate::errors::Error;
use core::time::Duration;
use http::{Request, Uri};
use k8s_openapi::api::core::v1::Service;
use kube::{Api, Client, Config};
use std::net::IpAddr;
use std::str::FromStr;
use tokio::time::timeout;

/// What ways there are.
const WAYS: &str = "ipv4:ADDRESS, ipv6:ADDRESS, dns:NAME, lb:SERVICE, api:HOST/PATH or none";
/// No way takes longer.
const PATIENCE: Duration = Duration::from_secs(30);
/// So much of what a web service says is looked at.
const BODY_MAX: usize = 4096;

/// One way to find it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Way {
    /// It is known.
    Address(IpAddr),
    /// A name has it.
    Name(String),
    /// A Service of the type LoadBalancer in Tombolo's own namespace has it.
    LoadBalancer(String),
    /// A web service says from where it is asked.
    Web(Uri),
}

impl FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("{text:?} is none of {WAYS}");
        let (how, what) = text.split_once(':').filter(|(_, what)| !what.is_empty()).ok_or_else(unknown)?;
        let address = || what.parse::<IpAddr>().map_err(|_| format!("{what:?} is no address"));
        Ok(match how {
            "ipv4" => {
                Self::Address(address().and_then(|a| a.is_ipv4().then_some(a).ok_or(format!("{what} is not IPv4")))?)
            }
            "ipv6" => {
                Self::Address(address().and_then(|a| a.is_ipv6().then_some(a).ok_or(format!("{what} is not IPv6")))?)
            }
            "dns" => Self::Name(what.to_owned()),
            "lb" => Self::LoadBalancer(what.to_owned()),
            "api" => Self::Web(web(what)?),
            _ => return Err(unknown()),
        })
    }
}

/// `HOST/PATH` is asked over HTTPS, as Submariner's users write it; a whole URL as it says.
fn web(what: &str) -> Result<Uri, String> {
    let whole = if what.contains("://") { what.to_owned() } else { format!("https://{what}") };
    let uri: Uri = whole.parse().map_err(|error| format!("{what:?}: {error}"))?;
    match uri.scheme_str() {
        Some("http" | "https") if uri.host().is_some() => Ok(uri),
        _ => Err(format!("{what:?} is no address of a web service: as in api:api.ipify.org")),
    }
}

/// The ways of a setting; `none` is no way at all.
///
/// # Errors
/// The first that cannot be understood.
pub fn ways(setting: &[String]) -> Result<Vec<Way>, Error> {
    let wrong = |because| Error::Setting { flag: "public-address", because };
    setting.iter().filter(|way| *way != "none").map(|way| way.parse().map_err(wrong)).collect()
}

/// What is asked.
#[derive(Clone)]
pub struct Lookup {
    /// In this order.
    pub ways: Vec<Way>,
    /// The own cluster's API.
    pub local: Client,
    /// Where its Services are.
    pub namespace: String,
    /// The name under which web services are asked.
    pub user_agent: String,
    /// Which family is wanted: that of the private address.
    pub v4: bool,
}

impl core::fmt::Debug for Lookup {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Lookup").field("ways", &self.ways).finish_non_exhaustive()
    }
}

impl Lookup {
    /// The first way that works; nothing, if there is no way.
    ///
    /// # Errors
    /// What came of each, if none works.
    pub async fn find(&self) -> Result<Option<IpAddr>, String> {
        let mut failures = Vec::new();
        for way in &self.ways {
            match timeout(PATIENCE, self.follow(way)).await {
                Ok(Ok(address)) => return Ok(Some(address)),
                Ok(Err(because)) => failures.push(because),
                Err(_) => failures.push(format!("{way:?}: no answer for {PATIENCE:?}")),
            }
        }
        if failures.is_empty() { Ok(None) } else { Err(failures.join("; ")) }
    }

    async fn follow(&self, way: &Way) -> Result<IpAddr, String> {
        match way {
            Way::Address(address) => Ok(*address),
            Way::Name(name) => self.resolve(name).await,
            Way::LoadBalancer(service) => self.ingress(service).await,
            Way::Web(uri) => self.ask(uri).await,
        }
    }

    /// The first address of a name, by size: the answer's order may change with each.
    async fn resolve(&self, name: &str) -> Result<IpAddr, String> {
        let found = tokio::net::lookup_host((name, 0)).await.map_err(|error| format!("{name}: {error}"))?;
        let least = found.map(|at| at.ip()).filter(|ip| ip.is_ipv4() == self.v4).min();
        least.ok_or_else(|| format!("{name} has no address of that family"))
    }

    async fn ingress(&self, service: &str) -> Result<IpAddr, String> {
        let services: Api<Service> = Api::namespaced(self.local.clone(), &self.namespace);
        let called = format!("Service {}/{service}", self.namespace);
        let found = services.get(service).await.map_err(|error| format!("{called}: {error}"))?;
        let ingress = found.status.and_then(|status| status.load_balancer?.ingress).unwrap_or_default();
        let ip = |text: &String| text.parse::<IpAddr>().ok().filter(|ip| ip.is_ipv4() == self.v4);
        if let Some(address) = ingress.iter().filter_map(|ingress| ip(ingress.ip.as_ref()?)).min() {
            return Ok(address);
        }
        match ingress.iter().find_map(|ingress| ingress.hostname.as_ref()) {
            Some(name) => self.resolve(name).await,
            None => Err(format!("{called} has no address of that family in its status.loadBalancer (yet)")),
        }
    }

    async fn ask(&self, uri: &Uri) -> Result<IpAddr, String> {
        let told = |error: &dyn core::fmt::Display| format!("{uri}: {error}");
        // What it is asked for stands in the request.
        let config = Config::new(base_of(uri).map_err(|error| told(&error))?);
        let client = apis::client(&config, &self.user_agent).map_err(|error| told(&error))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let request = Request::get(path).body(Vec::new()).map_err(|error| told(&error))?;
        let body = client.request_text(request).await.map_err(|error| told(&error))?;
        address_in(&body, self.v4).ok_or_else(|| told(&"its answer holds no address of that family"))
    }
}

fn base_of(uri: &Uri) -> Result<Uri, http::Error> {
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
    Ok(Uri::from_parts(parts)?)
}

/// The first address in what a web service says: some say nothing else, some wrap it.
fn address_in(body: &str, v4: bool) -> Option<IpAddr> {
    let end = body.char_indices().nth(BODY_MAX).map_or(body.len(), |(end, _)| end);
    let words = body.get(..end)?.split(|c: char| !(c.is_ascii_hexdigit() || c == '.' || c == ':'));
    let mut addresses =
        words.filter_map(|word| word.parse().or_else(|_| word.trim_matches(':').parse::<IpAddr>()).ok());
    addresses.find(|ip| ip.is_ipv4() == v4)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tombolo_apiserver::{ApiServer, Registry};

    #[test]
    fn ways_are_read_and_what_is_wrong_is_told() {
        let of = |text: &[&str]| {
            ways(&text.iter().map(|way| (*way).to_owned()).collect::<Vec<_>>()).map_err(|error| error.to_string())
        };
        assert_eq!(of(&["none"]), Ok(vec![]));
        let known = Way::Address("192.0.2.1".parse().unwrap());
        let web = |uri: &str| Way::Web(uri.parse().unwrap());
        assert_eq!(of(&["ipv4:192.0.2.1", "dns:gw.example"]), Ok(vec![known, Way::Name("gw.example".into())]));
        assert_eq!(of(&["lb:gateways"]), Ok(vec![Way::LoadBalancer("gateways".into())]));
        assert_eq!(of(&["api:ipecho.net/plain"]), Ok(vec![web("https://ipecho.net/plain")]));
        assert_eq!(of(&["api:http://10.0.0.1:8080/ip"]), Ok(vec![web("http://10.0.0.1:8080/ip")]));
        let none = format!("is none of {WAYS}");
        for (text, told) in [
            ("192.0.2.1", format!("\"192.0.2.1\" {none}")),
            ("ipv4:::1", "::1 is not IPv4".into()),
            ("ipv6:x", "\"x\" is no address".into()),
            ("dns:", format!("\"dns:\" {none}")),
            ("api:ftp://a", "\"ftp://a\" is no address of a web service: as in api:api.ipify.org".into()),
            ("api:a b", "\"a b\": invalid uri character".into()),
        ] {
            assert_eq!(of(&[text]), Err(format!("--public-address: {told}")));
        }
    }

    #[test]
    fn an_address_is_found_in_whatever_a_web_service_says() {
        let v4 = |body| address_in(body, true).map(|ip| ip.to_string());
        assert_eq!(v4("198.51.100.7\n").as_deref(), Some("198.51.100.7"));
        assert_eq!(v4("{\"ip\":\"198.51.100.7\"}").as_deref(), Some("198.51.100.7"));
        assert_eq!(v4("<b>Your address: 198.51.100.7</b>").as_deref(), Some("198.51.100.7"));
        assert_eq!(v4("2001:db8::7"), None);
        assert_eq!(v4("999.1.1.1, sorry"), None);
        assert_eq!(address_in("ip=2001:db8::7;", false), Some("2001:db8::7".parse().unwrap()));
    }

    /// A web service that says `body` once, and where it is.
    async fn saying(body: &'static str) -> String {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let asked = stream.read(&mut [0; 1024]).await.unwrap();
            assert!(asked > 0);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all((head + body).as_bytes()).await.unwrap();
        });
        format!("api:http://{at}/plain")
    }

    /// An API that has one Service, and a client of it.
    async fn api(service: serde_json::Value) -> Client {
        let server = ApiServer::new(Registry::clusterset(), 1, tombolo_core::base::Wall::default);
        server.put("cluster", service).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(server.clone().serve_connection(stream));
            }
        });
        apis::client(&Config::new(format!("http://{at}").parse().unwrap()), "test").unwrap()
    }

    async fn find(local: Client, setting: &[&str]) -> Result<Option<IpAddr>, String> {
        let ways = setting.iter().map(|way| way.parse().unwrap()).collect();
        Lookup { ways, local, namespace: "default".into(), user_agent: "test".into(), v4: true }.find().await
    }

    #[tokio::test]
    async fn the_first_way_that_works_is_taken_and_failures_are_told_if_none_does() {
        let ingress =
            serde_json::json!([{ "hostname": "localhost" }, { "ip": "2001:db8::1" }, { "ip": "198.51.100.9" }]);
        let local = api(serde_json::json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "gateways", "namespace": "default" },
            "status": { "loadBalancer": { "ingress": ingress } },
        }))
        .await;
        let found = |address: &str| Ok(Some(address.parse().unwrap()));
        assert_eq!(find(local.clone(), &[]).await, Ok(None));
        assert_eq!(find(local.clone(), &["dns:localhost"]).await, found("127.0.0.1"));
        assert_eq!(find(local.clone(), &["lb:gateways"]).await, found("198.51.100.9"));
        assert_eq!(find(local.clone(), &["lb:none", &saying("198.51.100.7\n").await]).await, found("198.51.100.7"));
        let failed = find(local, &["dns:no-such-host.invalid", "lb:none", &saying("nothing").await]).await.unwrap_err();
        for told in ["no-such-host.invalid: ", "; Service default/none: ", "/plain: its answer holds no address"] {
            assert!(failed.contains(told), "{told}: {failed}");
        }
    }
}
