package bench;

import java.net.URI;

/** The address of the database and the number of connections, from the environment. */
final class Database {
    static final URI URL = URI.create(System.getenv("FOREBAY_PG_URL"));
    static final String NAME = URL.getPath().substring(1);
    static final String USER = URL.getUserInfo().split(":")[0];
    static final String PASSWORD = URL.getUserInfo().split(":")[1];
    static final int CONNECTIONS = Integer.parseInt(System.getenv().getOrDefault("CONNECTIONS", "256"));
    static final boolean PIPELINED = Boolean.parseBoolean(System.getenv().getOrDefault("PIPELINED", "true"));

    /** Number of executions after which the blocking driver prepares a statement on the server; 0: never. */
    static final String PREPARE_THRESHOLD = System.getenv().getOrDefault("PREPARE_THRESHOLD", "5");

    private Database() {}
}
