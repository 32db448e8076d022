//! Requests of systems that know nothing of workflows, as `/execute/custom` of Rengine's executor takes them: arguments from any JSON or
//! XML, other parameters from the query, the header or the body, and a response made from a template.

use std::{borrow::Cow, collections::BTreeMap};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::{
    read_xml,
    request::{SceneRequest, wrong_timeout},
    response::SceneResult,
};
use crate::{Bundle, Evaluator, Template, WorkflowFailure};

/// The parameter `reqSettings`: JSON in base64.
#[derive(Debug, Deserialize)]
struct RequestSettings {
    #[serde(default)]
    format: Format,
}

/// Format of a body whose media type does not tell.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Json,
    Xml,
}

/// The parameter `respSettings`: JSON in base64.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseSettings {
    template_key: String,
}

/// A request of a system that knows nothing of workflows.
#[derive(Debug)]
pub struct CustomRequest {
    /// Without its arguments.
    scene: SceneRequest<'static>,
    args: Box<RawValue>,
    template_key: String,
}

/// The places where the parameters of a request may be.
struct Parameters<'r> {
    query: &'r BTreeMap<String, String>,
    /// The value of the header field with this name in lower case.
    header: &'r dyn Fn(&str) -> Option<String>,
    /// Arguments from the body, overridden by those of the query.
    args: Map<String, Value>,
}

impl CustomRequest {
    /// Reads a request from its query, its header, of which `header` gives the field with a name in lower case, and its body; `id` is the
    /// id of one that has none.
    ///
    /// # Errors
    /// The parameter that is missing or cannot be read, and what it should be.
    pub fn read(
        query: &BTreeMap<String, String>,
        header: &dyn Fn(&str) -> Option<String>,
        body: &[u8],
        id: &str,
    ) -> Result<Self, WorkflowFailure> {
        let RequestSettings { format } = settings(query, "reqSettings")?;
        let ResponseSettings { template_key } = settings(query, "respSettings")?;
        let args = body_args(header, body, format)?;
        let mut parameters = Parameters { query, header, args };
        parameters.merge_args()?;
        let client_secret = parameters.text("clientSecret");
        // Neither rules nor their logs should see it.
        parameters.args.remove("clientSecret");
        let scene = SceneRequest {
            request_id: Some(parameters.text("requestId").unwrap_or_else(|| id.to_owned())),
            client_id: parameters.text("clientId"),
            client_secret,
            scenes_codes: Some(parameters.list("scenesCodes")),
            timeout: parameters.timeout()?,
            ..SceneRequest::default()
        };
        let args = RawValue::from_string(Value::Object(parameters.args).to_string());
        Ok(Self {
            scene,
            args: args.map_err(|error| WorkflowFailure::request(error.to_string()))?,
            template_key,
        })
    }

    /// The same request in Rengine's own format.
    pub fn scene(&self) -> SceneRequest<'_> {
        SceneRequest {
            args: Some(&self.args),
            ..self.scene.clone()
        }
    }

    /// The template of the response.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn template<'b, E: Evaluator>(&self, bundle: &'b Bundle<E>) -> Result<&'b Template, WorkflowFailure> {
        let key = &self.template_key;
        bundle.template(key).ok_or_else(|| {
            WorkflowFailure::request(format!("there is no template `{key}` (templates/{key}.json)"))
        })
    }
}

/// Fills a template with the values of all successful runs.
///
/// # Errors
/// A placeholder without a value.
pub fn fill(template: &Template, results: &[(String, SceneResult)]) -> Result<String, WorkflowFailure> {
    let mut values = Map::new();
    for (_, result) in results {
        if let Ok(found) = &result.values
            && let Ok(found) = serde_json::from_str::<Map<String, Value>>(found)
        {
            values.extend(found);
        }
    }
    template.fill(&values).map_err(|error| {
        let failures = results
            .iter()
            .filter_map(|(_, result)| result.values.as_ref().err());
        let reasons = failures.map(|failure| &*failure.reason);
        let what = std::iter::once(&*error)
            .chain(reasons)
            .collect::<Vec<_>>()
            .join("; ");
        WorkflowFailure::Template { what }
    })
}

/// A required query parameter with settings: JSON in base64.
fn settings<T: for<'d> Deserialize<'d>>(
    query: &BTreeMap<String, String>,
    name: &str,
) -> Result<T, WorkflowFailure> {
    let written = query.get(name).map_or("", String::as_str);
    if written.is_empty() {
        let what = format!("the parameter `{name}` is missing: JSON in base 64");
        return Err(WorkflowFailure::request(what));
    }
    read_base64(name, written)
}

/// Decodes a parameter: JSON in base64.
fn read_base64<T: for<'d> Deserialize<'d>>(name: &str, written: &str) -> Result<T, WorkflowFailure> {
    let decoded = STANDARD.decode(written.trim());
    let decoded = decoded.map_err(|error| {
        WorkflowFailure::request(format!("the parameter `{name}` is no base 64: {error}"))
    })?;
    serde_json::from_slice(&decoded)
        .map_err(|error| WorkflowFailure::request(format!("the parameter `{name}` has other JSON: {error}")))
}

/// Parses a body into arguments.
fn body_args(
    header: &dyn Fn(&str) -> Option<String>,
    text: &[u8],
    format: Format,
) -> Result<Map<String, Value>, WorkflowFailure> {
    if text.trim_ascii().is_empty() {
        return Ok(Map::new());
    }
    let media_type = header("content-type").unwrap_or_default().to_ascii_lowercase();
    let format = match &*media_type {
        kind if kind.contains("application/json") => Format::Json,
        kind if kind.contains("application/xml") || kind.contains("text/xml") => Format::Xml,
        _ => format,
    };
    let text = str::from_utf8(text).map_err(|_| WorkflowFailure::request("the body is no UTF-8"))?;
    match format {
        Format::Json => serde_json::from_str(text)
            .map_err(|error| WorkflowFailure::request(format!("the body is not a JSON object: {error}"))),
        Format::Xml => {
            read_xml(text).map_err(|error| WorkflowFailure::request(format!("the body is no XML: {error}")))
        }
    }
}

impl Parameters<'_> {
    /// Looks up a parameter: in the query, in a header of its name, with or without `x-`, or in the body.
    fn find(&self, name: &str) -> Option<Cow<'_, Value>> {
        let lower = name.to_ascii_lowercase();
        let header = |name: &str| (self.header)(name).filter(|value| !value.is_empty());
        let query = self.query.get(name).filter(|value| !value.is_empty());
        let written = query
            .cloned()
            .or_else(|| header(&lower))
            .or_else(|| header(&format!("x-{lower}")));
        match written {
            Some(written) => Some(Cow::Owned(Value::from(written))),
            None => self.args.get(name).map(Cow::Borrowed),
        }
    }

    fn text(&self, name: &str) -> Option<String> {
        match self.find(name)?.into_owned() {
            Value::String(text) => Some(text),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// A list, or a text with commas between the items.
    fn list(&self, name: &str) -> Vec<String> {
        match self.find(name).as_deref() {
            Some(Value::Array(items)) => items
                .iter()
                .filter_map(|item| item.as_str().map(str::to_owned))
                .collect(),
            Some(Value::String(items)) => items
                .split(',')
                .map(|item| item.trim().to_owned())
                .filter(|item| !item.is_empty())
                .collect(),
            _ => Vec::new(),
        }
    }

    fn timeout(&self) -> Result<Option<i64>, WorkflowFailure> {
        let Some(written) = self.text("timeout") else {
            return Ok(None);
        };
        let timeout = written.parse();
        timeout.map(Some).map_err(|_| wrong_timeout(written))
    }

    /// Merges the arguments of the parameter `args` over those of the body.
    fn merge_args(&mut self) -> Result<(), WorkflowFailure> {
        // A body may have an object of its own called `args`.
        let written = match self.find("args").as_deref() {
            Some(Value::String(written)) => written.clone(),
            _ => return Ok(()),
        };
        let args: Map<String, Value> = read_base64("args", &written)?;
        self.args.remove("args");
        self.args.extend(args);
        Ok(())
    }
}
