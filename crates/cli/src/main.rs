//! The `forebay` command.
use forebay_server::{Server, config::Config};
use std::path::Path;

fn main() -> anyhow::Result<()> {
    let started = std::time::Instant::now();
    let file = std::env::args().nth(1).unwrap_or_else(|| "forebay.toml".into());
    let config = Config::load(Path::new(&file))?;
    let server = Server::start(config)?;
    #[allow(clippy::print_stdout)]
    {
        println!(
            "forebay 0.1.0 started in {} ms, listening on {}",
            started.elapsed().as_millis(),
            server.urls().join(", ")
        );
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        tokio::signal::ctrl_c().await?;
        server.stop().await;
        Ok(())
    })
}
