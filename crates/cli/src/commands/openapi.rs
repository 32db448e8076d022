use forebay_server::config::Config;

use crate::{arguments::ConfigFile, commands::strip::PARSER, output};

/// Print the OpenAPI document (3.1) of the routes, as JSON
///
/// No server is needed, and none is started. What routes take and answer comes from the configuration, the schemas of bodies and the files of
/// workflows; workflows in the store are not read. To serve the document: a route with `openapi = {}`. Example: forebay openapi > openapi.json
#[derive(Debug, clap::Args)]
pub(crate) struct OpenApiArgs {
    #[command(flatten)]
    config: ConfigFile,
}

pub(crate) fn run(arguments: &OpenApiArgs) -> anyhow::Result<()> {
    let config = Config::load(&arguments.config.config)?;
    output::line(&forebay_server::openapi(&config, PARSER)?)?;
    Ok(())
}
