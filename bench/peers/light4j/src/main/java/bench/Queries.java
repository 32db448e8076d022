package bench;

import com.networknt.handler.LightHttpHandler;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import io.undertow.server.HttpServerExchange;
import io.undertow.server.handlers.BlockingHandler;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;

/** Runs one statement after another on a connection of a Hikari pool, on a blocking thread. */
public final class Queries implements LightHttpHandler {
    private final HikariDataSource pool = pool();
    private final BlockingHandler blocking = new BlockingHandler(this::answer);

    @Override
    public void handleRequest(HttpServerExchange exchange) throws Exception {
        blocking.handleRequest(exchange);
    }

    private void answer(HttpServerExchange exchange) throws Exception {
        int[][] rows = new int[Worlds.asked(exchange)][];
        try (Connection connection = pool.getConnection();
                PreparedStatement statement = connection.prepareStatement("select id, randomnumber from world where id = ?")) {
            for (int index = 0; index < rows.length; index++) {
                statement.setInt(1, Worlds.lot());
                try (ResultSet result = statement.executeQuery()) {
                    result.next();
                    rows[index] = new int[] {result.getInt(1), result.getInt(2)};
                }
            }
        }
        Worlds.answer(exchange, rows);
    }

    private static HikariDataSource pool() {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl("jdbc:postgresql://" + Database.URL.getHost() + ":" + Database.URL.getPort() + "/" + Database.NAME + "?sslmode=disable&prepareThreshold=" + Database.PREPARE_THRESHOLD);
        config.setUsername(Database.USER);
        config.setPassword(Database.PASSWORD);
        config.setMaximumPoolSize(Database.CONNECTIONS);
        return new HikariDataSource(config);
    }
}
