//! The compiled table: one tree of segments per host rule, searched in order of precedence.

use std::borrow::Cow;
use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::host::{self, HostRule};
use super::path::CheckedPath;
use super::{Pattern, RouterError, Segment};

/// A route to compile.
#[derive(Debug, Clone)]
pub struct Rule<T> {
    /// Upper case; empty: every method but TRACE and CONNECT.
    pub methods: Vec<String>,
    /// `example.com`, `*.example.com`, or `None` for every host.
    pub host: Option<String>,
    /// The path pattern, parsed by [`Router::compile`].
    pub path: String,
    /// The value that [`Router::find`] returns.
    pub target: T,
}

/// An immutable routing table.
#[derive(Debug)]
pub struct Router<T> {
    routes: Vec<Entry<T>>,
    /// Most specific host first.
    hosts: Vec<HostTable>,
}

/// The result of routing a request.
#[derive(Debug)]
pub enum Outcome<'r, 'p, T> {
    /// This route answers the request.
    Found(Found<'r, 'p, T>),
    /// An OPTIONS request that no route of this path handles; the server answers it with `Allow`.
    Options {
        /// The value of the `Allow` header.
        allow: String,
    },
    /// Routes exist for this path, but none for the method: 405.
    MethodNotAllowed {
        /// The value of the `Allow` header.
        allow: String,
    },
    /// No route exists for this path: 404.
    NotFound,
    /// The path is invalid: 400.
    BadPath,
}

/// The matching route.
#[derive(Debug)]
pub struct Found<'r, 'p, T> {
    /// The rule's target.
    pub target: &'r T,
    /// The rule's path as written.
    pub pattern: &'r str,
    /// Names and percent-decoded values in path order.
    pub params: Params<'r, 'p>,
    /// The part of the path matched by `*`, as received, still percent-encoded.
    pub rest: Option<&'p str>,
}

/// Parameter names and percent-decoded values. Up to four values without percent-encoding need no allocation.
pub type Params<'r, 'p> = SmallVec<[(&'r str, Cow<'p, str>); 4]>;

#[derive(Debug)]
struct Entry<T> {
    path: String,
    names: Vec<String>,
    ends_with_rest: bool,
    target: T,
}

#[derive(Debug)]
struct HostTable {
    host: HostRule,
    /// Node 0 is the root. The nodes form a tree, so a search visits each at most once.
    nodes: Vec<Node>,
}

#[derive(Debug, Default)]
struct Node {
    /// Sorted by segment text.
    statics: Vec<(String, usize)>,
    param: Option<usize>,
    /// Routes ending at this node.
    here: Leaf,
    /// Routes whose `*` begins at this node.
    rest: Leaf,
}

/// Routes with the same shape of path, by method.
#[derive(Debug, Default)]
struct Leaf {
    named: Vec<(String, usize)>,
    any: Option<usize>,
}

/// The index of the segment at which each parameter's value starts.
type Starts = SmallVec<[usize; 4]>;

impl<T> Router<T> {
    /// Compiles rules; their order does not matter.
    pub fn compile(rules: Vec<Rule<T>>) -> Result<Self, RouterError> {
        let mut router = Self {
            routes: Vec::with_capacity(rules.len()),
            hosts: Vec::new(),
        };
        for rule in rules {
            router.add(rule)?;
        }
        router.hosts.sort_by_key(|table| table.host.rank());
        Ok(router)
    }

    /// Finds the route for a request. `host` is a Host header or authority, with or without a port, and empty if there is none; `path` is
    /// the path as received, without the query.
    pub fn find<'r, 'p>(&'r self, method: &str, host: &str, path: &'p str) -> Outcome<'r, 'p, T> {
        if path == "*" && method == "OPTIONS" {
            return Outcome::Options {
                allow: self.allow_everywhere(),
            };
        }
        let Some(path) = CheckedPath::new(path) else {
            return Outcome::BadPath;
        };
        let host = host::name_of(host);
        let mut starts = Starts::new();
        for table in self.hosts.iter().filter(|table| table.host.accepts(host)) {
            if let Some(route) = table.search(0, 0, &path, &mut starts, &mut |leaf| leaf.route(method)) {
                return Outcome::Found(self.found(route, &path, &starts));
            }
        }
        self.refusal(method, host, &path)
    }

    fn add(&mut self, rule: Rule<T>) -> Result<(), RouterError> {
        let index = self.routes.len();
        let pattern = Pattern::parse(&rule.path).map_err(|source| RouterError::Pattern {
            rule: index,
            path: rule.path.clone(),
            source,
        })?;
        let host = HostRule::parse(rule.host.as_deref()).ok_or_else(|| RouterError::Host {
            rule: index,
            host: rule.host.clone().unwrap_or_default(),
        })?;
        let leaf = self.table_of(host).leaf_of(&pattern);
        if let Err((method, first)) = leaf.add(&rule.methods, index) {
            return Err(RouterError::Conflict {
                first,
                second: index,
                path: rule.path,
                method,
            });
        }
        let names = pattern.names().map(str::to_owned).collect();
        let ends_with_rest = pattern.ends_with_rest();
        self.routes.push(Entry {
            path: rule.path,
            names,
            ends_with_rest,
            target: rule.target,
        });
        Ok(())
    }

    fn table_of(&mut self, host: HostRule) -> &mut HostTable {
        let at = self
            .hosts
            .iter()
            .position(|table| table.host == host)
            .unwrap_or_else(|| {
                self.hosts.push(HostTable {
                    host,
                    nodes: vec![Node::default()],
                });
                self.hosts.len() - 1
            });
        &mut self.hosts[at]
    }

    fn found<'r, 'p>(&'r self, route: usize, path: &CheckedPath<'p>, starts: &Starts) -> Found<'r, 'p, T> {
        let Entry {
            path: pattern,
            names,
            ends_with_rest,
            target,
        } = &self.routes[route];
        let rest_at = if *ends_with_rest {
            starts.last().copied()
        } else {
            None
        };
        let value = |at: usize| {
            if Some(at) == rest_at {
                path.from(at)
            } else {
                path.segment(at)
            }
        };
        let params = names
            .iter()
            .zip(starts)
            .map(|(name, &at)| (name.as_str(), value(at)))
            .collect();
        Found {
            target,
            pattern,
            params,
            rest: rest_at.map(|at| path.raw_from(at)),
        }
    }

    /// The outcome for a request that no route accepts.
    fn refusal<'r, 'p>(&'r self, method: &str, host: &str, path: &CheckedPath<'p>) -> Outcome<'r, 'p, T> {
        let mut methods = BTreeSet::new();
        for table in self.hosts.iter().filter(|table| table.host.accepts(host)) {
            let mut collect = |leaf: &Leaf| {
                methods.extend(leaf.methods().map(str::to_owned));
                None
            };
            table.search(0, 0, path, &mut Starts::new(), &mut collect);
        }
        if methods.is_empty() {
            return Outcome::NotFound;
        }
        let allow = allow_header(methods);
        if method == "OPTIONS" {
            Outcome::Options { allow }
        } else {
            Outcome::MethodNotAllowed { allow }
        }
    }

    fn allow_everywhere(&self) -> String {
        let leaves = self
            .hosts
            .iter()
            .flat_map(|table| &table.nodes)
            .flat_map(|node| [&node.here, &node.rest]);
        let mut methods: BTreeSet<String> = BTreeSet::new();
        for leaf in leaves {
            methods.extend(leaf.methods().map(str::to_owned));
        }
        allow_header(methods)
    }
}

impl HostTable {
    /// Visits matching leaves, most specific first, until `accept` takes one. If none is taken, `starts` is left unchanged.
    fn search(
        &self,
        node: usize,
        at: usize,
        path: &CheckedPath<'_>,
        starts: &mut Starts,
        accept: &mut dyn FnMut(&Leaf) -> Option<usize>,
    ) -> Option<usize> {
        let node = &self.nodes[node];
        if at == path.len() {
            return accept(&node.here);
        }
        if let Some(child) = node.static_child(at, path)
            && let Some(route) = self.search(child, at + 1, path, starts, accept)
        {
            return Some(route);
        }
        if let Some(child) = node.param.filter(|_| !path.is_empty(at)) {
            starts.push(at);
            if let Some(route) = self.search(child, at + 1, path, starts, accept) {
                return Some(route);
            }
            starts.pop();
        }
        let route = accept(&node.rest)?;
        starts.push(at);
        Some(route)
    }

    fn leaf_of(&mut self, pattern: &Pattern) -> &mut Leaf {
        let mut node = 0;
        for segment in pattern.segments() {
            node = match segment {
                Segment::Static(text) => self.static_child_of(node, text),
                Segment::Param(_) => self.param_child_of(node),
                Segment::Rest(_) => return &mut self.nodes[node].rest,
            };
        }
        &mut self.nodes[node].here
    }

    fn static_child_of(&mut self, node: usize, text: &str) -> usize {
        let fresh = self.nodes.len();
        let statics = &mut self.nodes[node].statics;
        match statics.binary_search_by(|(known, _)| known.as_str().cmp(text)) {
            Ok(at) => statics[at].1,
            Err(at) => {
                statics.insert(at, (text.to_owned(), fresh));
                self.nodes.push(Node::default());
                fresh
            }
        }
    }

    fn param_child_of(&mut self, node: usize) -> usize {
        let fresh = self.nodes.len();
        let child = *self.nodes[node].param.get_or_insert(fresh);
        if child == fresh {
            self.nodes.push(Node::default());
        }
        child
    }
}

impl Node {
    fn static_child(&self, at: usize, path: &CheckedPath<'_>) -> Option<usize> {
        match self.statics.as_slice() {
            [] => None,
            [(only, child)] => path.segment_is(at, only).then_some(*child),
            several => {
                let segment = path.segment(at);
                let found = several
                    .binary_search_by(|(text, _)| text.as_str().cmp(&segment))
                    .ok()?;
                Some(several[found].1)
            }
        }
    }
}

impl Leaf {
    /// The error is a method already taken by another route here, and that route.
    fn add(&mut self, methods: &[String], route: usize) -> Result<(), (String, usize)> {
        if methods.is_empty() {
            let first = *self.any.get_or_insert(route);
            return if first == route {
                Ok(())
            } else {
                Err(("every method".to_owned(), first))
            };
        }
        for method in methods {
            match self.named.iter().find(|(known, _)| known == method) {
                Some((_, first)) if *first != route => return Err((method.clone(), *first)),
                Some(_) => {}
                None => self.named.push((method.clone(), route)),
            }
        }
        Ok(())
    }

    fn route(&self, method: &str) -> Option<usize> {
        let named = |wanted: &str| {
            self.named
                .iter()
                .find(|(known, _)| known == wanted)
                .map(|(_, route)| *route)
        };
        named(method)
            .or_else(|| if method == "HEAD" { named("GET") } else { None })
            .or(self.any.filter(|_| !matches!(method, "TRACE" | "CONNECT")))
    }

    /// The methods that are named, and usual ones if there is a route for every method.
    fn methods(&self) -> impl Iterator<Item = &str> {
        let usual: &[&str] = match self.any {
            Some(_) => &["GET", "POST", "PUT", "PATCH", "DELETE"],
            None => &[],
        };
        let named = self.named.iter().map(|(method, _)| method.as_str());
        named.chain(usual.iter().copied())
    }
}

/// The value of an `Allow` header: HEAD accompanies GET, and OPTIONS is always included.
fn allow_header(mut methods: BTreeSet<String>) -> String {
    if methods.contains("GET") {
        methods.insert("HEAD".to_owned());
    }
    methods.insert("OPTIONS".to_owned());
    methods.into_iter().collect::<Vec<_>>().join(", ")
}
