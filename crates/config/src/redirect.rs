//! Routes that send requests elsewhere: to another address, or to another route of the server.

use forebay_router::{Outcome, Pattern, Router, Rule, Template};

use crate::build::Context;
use crate::fields::Fields;
use crate::route::{PathKind, Route, Target, TargetKeys, pattern};
use crate::section::section;

/// Redirects that keep the query and say where the client finds what it asked for (RFC 9110, 15.4).
const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

section! {
    /// The keys of a redirect.
    #[rules(Redirect::rules)]
    pub struct Redirect {
        /// A path of this server, or an address that starts with `http://` or `https://`. `:name` and `*` stand for what the route's path has
        /// matched: after a `/` or, in a query, after a `=`. The request's query is added.
        to: String,
        /// 307 and 308 keep the method, 301 and 302 may turn POST into GET, and 303 turns it into GET. 301 and 308 are remembered by clients.
        status: u16 as integer(301, 308) = "307",
    }
}

impl Redirect {
    fn rules(fields: &Fields, context: &mut Context<'_>) {
        if let Some(crate::fields::Value::Integer(status)) = fields.value("status")
            && !STATUSES.map(u64::from).contains(status)
        {
            let message = format!("found {status}, expected 301, 302, 303, 307 or 308");
            context.note(fields.problem("status", message));
        }
    }
}

/// Reports the address of a redirect or rewrite that the route's path does not fit.
pub(crate) fn check_template(keys: &TargetKeys, fields: &Fields, context: &mut Context<'_>) {
    let Some(pattern) = pattern(fields) else { return };
    let redirect = keys.redirect.as_ref().map(|redirect| ("redirect", &redirect.to));
    let rewrite = keys.rewrite.as_ref().map(|path| ("rewrite", path));
    let Some((key, text)) = redirect.or(rewrite) else {
        return;
    };
    let problem = match Template::parse(text, &pattern) {
        Ok(template) if key == "rewrite" && !template.is_path() => {
            format!("found {text:?}, expected a path of this server, such as \"/internal/*\"")
        }
        Ok(_) => return,
        Err(error) => format!("found {text:?}: {error}"),
    };
    context.note(fields.problem(key, problem));
}

/// Reports rewrites that lead to another rewrite or, if they always lead to the same path, to no route.
pub(crate) fn check_rewrites(routes: &[(Route, &Fields)], context: &mut Context<'_>) {
    if !routes
        .iter()
        .any(|(route, _)| matches!(route.target, Target::Rewrite(_)))
    {
        return;
    }
    let rule = |(at, (path, kind)): (usize, (String, PathKind))| Rule {
        methods: routes[at].0.methods_at(kind),
        host: routes[at].0.host.clone(),
        path,
        target: at,
    };
    let paths = routes.iter().enumerate();
    let paths = paths.flat_map(|(at, (route, _))| route.paths().map(move |path| (at, path)));
    let Ok(router) = Router::compile(paths.map(rule).collect()) else {
        return;
    };
    for (route, fields) in routes {
        let Target::Rewrite(text) = &route.target else {
            continue;
        };
        let Some((path, is_constant)) = example(&route.path, text) else {
            continue;
        };
        let host = route.host.as_deref().unwrap_or_default().replace('*', "any");
        let method = route.methods().first().map_or("GET", String::as_str);
        let message = match router.find(method, &host, &path) {
            Outcome::Found(found) if matches!(routes[*found.target].0.target, Target::Rewrite(_)) => {
                let by = context
                    .places
                    .said(routes[*found.target].1.line_of("path"), fields.line);
                format!("`{text}` is answered by a rewrite, the route on {by}; a request is rewritten once")
            }
            Outcome::Found(_) => continue,
            _ if is_constant => format!("no route answers {method} `{text}`"),
            _ => continue,
        };
        context.note(fields.problem("rewrite", message));
    }
}

/// A path to which a rewrite leads, and whether it is the only one.
fn example(path: &str, text: &str) -> Option<(String, bool)> {
    let pattern = Pattern::parse(path).ok()?;
    let template = Template::parse(text, &pattern).ok().filter(Template::is_path)?;
    let params: Vec<_> = pattern.names().map(|name| (name, "any".into())).collect();
    let expanded = template.expand(&params, Some("any"), b"");
    let path = expanded.split('?').next().unwrap_or_default().to_owned();
    Some((path, template.is_constant()))
}
